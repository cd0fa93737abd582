"""What tools print, to stdout and stderr, and the errors that end a tool with a message."""

import base64
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

FAILED: Final = 1
BAD_USAGE: Final = 2


class InvalidOption(Exception):
    """A bad option, or a bad value in a file that an option names; ``str()`` is for the user."""


class OutputClosed(Exception):
    """The program that reads stdout or stderr has closed it. No OSError, because tools report those."""


class OutputFailed(Exception):
    """Stdout cannot be written, as on a full disk; ``str()`` is for the user. No OSError: tools report those."""


class ToolFailed(Exception):
    """The options are valid and the tool failed: a request was refused, a file cannot be read. As for InvalidOption."""


def say(text: str) -> None:
    """Print a line of a tool's output at once. Raises OutputClosed, OutputFailed."""
    with _output():
        print(text, flush=True)  # noqa: T201  # what a command line tool is for


def say_record(record: Mapping[str, object], text: str, *, as_json: bool) -> None:
    """Print a line: an object of JSON, or text. Raises OutputClosed, OutputFailed."""
    if as_json:
        say_json(record)
    else:
        say(text)


def say_json(record: Mapping[str, object]) -> None:
    """Print an object of JSON on a line. Raises OutputClosed, OutputFailed."""
    say_bytes(json_bytes(record))


def json_field(name: str, content: bytes | None) -> dict[str, str | None]:
    """A member of an object: ``key``, or ``keyBase64`` if the bytes are not UTF-8."""
    try:
        return {name: None if content is None else content.decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(content or b"").decode()}


def json_bytes(record: Mapping[str, object]) -> bytes:
    """An object of JSON with the end of the line, in UTF-8 whatever the locale."""
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def say_bytes(data: bytes) -> None:
    """Write bytes of a tool's output at once. Raises OutputClosed, OutputFailed."""
    with _output():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def flush_output() -> None:
    """Write what stdout and stderr have buffered. Raises OutputClosed, OutputFailed."""
    with _output():
        sys.stdout.flush()
    with _errors():
        sys.stderr.flush()


def complain(text: str) -> None:
    """Print a line about an error to stderr. Raises OutputClosed."""
    with _errors():
        print(text, file=sys.stderr, flush=True)  # noqa: T201  # a command line tool says so on stderr


@contextmanager
def _output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosed from error
    except OSError as error:
        raise OutputFailed(f"stdout cannot be written: {error.strerror}") from error


@contextmanager
def _errors() -> Iterator[None]:
    """As ``_output`` for stderr, where an OSError is ignored: there is nowhere to report it, and the status remains."""
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosed from error
    except OSError:
        pass
