"""Properties: files in the format of Java, and options with pairs."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from spark_kafka_native._command_line.output import InvalidOption, ToolFailed

_KEY: Final = re.compile(r"\s*((?:\\.|[^\\=:\s])*)", re.DOTALL)


def file_error(error: OSError | ValueError) -> str:
    """Why a file of UTF-8 text cannot be read, without its name."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.object[error.start]:#04x} at position {error.start} is not UTF-8"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def properties_in(path: Path, option: str = "") -> dict[str, str]:
    """As ``read_properties``. Raises ToolFailed naming the option and the file."""
    try:
        return read_properties(path)
    except (OSError, ValueError) as error:
        raise ToolFailed(f"{option} {path}: {file_error(error)}".lstrip()) from error


def parse_pairs(items: Iterable[str], option: str, *, strip_values: bool = True) -> dict[str, str]:
    """Options of the form ``KEY=VALUE``; a later one replaces an earlier one of the same key.

    Raises InvalidOption naming the option, but not the value, which may be a secret.
    """
    pairs: dict[str, str] = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not separator or not key.strip():
            raise InvalidOption(f"{option}: KEY=VALUE is expected")
        pairs[key.strip()] = value.strip() if strip_values else value
    return pairs


def read_properties(path: Path) -> dict[str, str]:
    """The entries of a Java properties file in UTF-8, such as server.properties; a later entry replaces an earlier one.

    A line without ``=`` is a key with an empty value, as in Java. Blanks after a value are removed, as Kafka does.
    Raises OSError; ValueError, which names the line and the key, but never a value: no UTF-8, or a malformed escape.
    """
    import javaproperties  # noqa: PLC0415  # takes 9 ms, and most commands read no file

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        raise ValueError(f"line {line}: byte {error.object[error.start]:#04x} is not UTF-8") from None
    entries: dict[str, str] = {}
    line = 1
    elements = javaproperties.parse(text)
    while True:
        try:
            element = next(elements, None)
        except javaproperties.InvalidUEscapeError:
            key = _KEY.match("\n".join(text.split("\n")[line - 1 :]))
            # The value may be a secret.
            reason = f"{key and key[1]}: a \\u escape needs four hexadecimal digits; a backslash is written \\\\"
            raise ValueError(f"line {line}: {reason}") from None
        if element is None:
            return entries
        if isinstance(element, javaproperties.KeyValue):
            entries[element.key] = element.value.strip()
        line += element.source.count("\n")
