"""Command lines of the jobs, the tools and the broker: options, properties files, closed standard streams."""

import argparse
import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from spark_kafka_native._protocol.nearest import did_you_mean

_KEY: Final = re.compile(r"\s*((?:\\.|[^\\=:\s])*)", re.DOTALL)
_NEGATIVE_NUMBER: Final = re.compile(r"-\d+|-\d*\.\d+")


class CommandParser(argparse.ArgumentParser):
    """As argparse, but options are whole names, have no empty value, and are given once unless they collect values.

    Unknown options are reported before any other error: argparse first reports missing ones, as a mistyped one is.
    An empty value is usually a shell variable that is not set. argparse ignores all values of an option but the last.
    """

    def __init__(self, **settings: Any) -> None:
        """As argparse, except for ``allow_abbrev``."""
        super().__init__(allow_abbrev=False, **settings)
        self._replaced: dict[str, str] = {}
        self._may_be_empty: set[str] = set()

    def add_replaced(self, text: str, *options: str) -> None:
        """Options of Apache Kafka's tool that this one does not have. ``text`` is what to use in their place."""
        self._replaced |= dict.fromkeys(options, text)

    def allow_empty(self, *options: str) -> None:
        """Options for which ``""`` is a value."""
        self._may_be_empty |= set(options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in argparse. Ends the program with status 2 if an option is unknown, empty or repeated."""
        words = sys.argv[1:] if args is None else list(args)
        own = list(self._own_arguments(words))
        unknown = [name for word in own if (name := self._unknown(word)) is not None]
        if unknown:
            self.error(f"unrecognized arguments: {', '.join(each + self._hint(each) for each in unknown)}")
        self._check_empty(own)
        self._check_repeated(own)
        return super().parse_known_args(words, namespace)

    def _check_empty(self, words: Sequence[str]) -> None:
        for before, word in itertools.pairwise(["", *words]):
            name, separator, value = word.partition("=")
            if not word and before not in self._may_be_empty:
                option = self._option_string_actions.get(before)
                if option is not None and option.nargs != 0:
                    self.error(f"{before}: must not be empty")
                names = [str(each.metavar or each.dest) for each in self._get_positional_actions()]
                self.error(f"{' or '.join(names)}: must not be empty" if names else "unrecognized arguments: ''")
            if separator and not value and name in self._option_string_actions:
                self.error(f"{name}: must not be empty")

    def _check_repeated(self, words: Sequence[str]) -> None:
        collecting = self._registry_get("action", "append")
        given: dict[argparse.Action, str] = {}
        for word, following in itertools.pairwise([*words, "-"]):
            name = next(
                (each for each in (word.partition("=")[0], word[:2]) if each in self._option_string_actions), ""
            )
            action = self._option_string_actions.get(name)
            if action is None or action.nargs == 0 or isinstance(action, collecting):
                continue
            if action.nargs == "?" and action not in given and "=" not in word and following.startswith("-"):
                continue  # without its value it is a flag
            if given.get(action) == name:
                self.error(f"{name} is given more than once; it takes one value")
            if action in given:
                self.error(f"{given[action]} and {name} are the same option; give it once")
            given[action] = name

    def _hint(self, name: str) -> str:
        if name in self._replaced:
            return f" ({self._replaced[name]})"
        return did_you_mean(name, [option for option in self._option_string_actions if option.startswith("-")])

    def _own_arguments(self, words: Sequence[str]) -> Iterator[str]:
        """The arguments before ``--``; with commands only those before the command."""
        own = itertools.takewhile(lambda word: word != "--", words)
        if self._subparsers is None:
            yield from own
            return
        for word in own:
            if not word.startswith("-"):
                return
            yield word
            option = self._option_string_actions.get(word)
            if option is not None:
                values = 1 if option.nargs is None else option.nargs
                yield from itertools.islice(own, values if isinstance(values, int) else 0)

    def _unknown(self, word: str) -> str | None:
        """The name of the option if it is unknown, without its value."""
        name = word.partition("=")[0]
        if not word.startswith("-") or word == "-" or " " in word or _NEGATIVE_NUMBER.fullmatch(word):
            return None
        known = self._option_string_actions
        with_value = not word.startswith("--") and word[:2] in known  # -tVALUE
        return None if name in known or with_value else name


def positive(text: str) -> int:
    """The ``type`` of an option that is an integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return value


def open_closed_streams() -> None:
    """Open the null device for those of stdin, stdout and stderr that are closed, so that no file gets their number.

    A closed stdout is no error, as in Apache Kafka's tools. ``sys.stdin`` stays None, for those that read it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)


def file_error(error: OSError | ValueError) -> str:
    """Why a file of UTF-8 text cannot be read, without its name."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.object[error.start]:#04x} at position {error.start} is not UTF-8"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


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
