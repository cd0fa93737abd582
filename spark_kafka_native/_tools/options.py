"""Options of tools, and the properties that options or the files they name have."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spark_kafka_native import __version__
from spark_kafka_native._command_line import CommandParser, file_error, read_properties
from spark_kafka_native._protocol.nearest import did_you_mean
from spark_kafka_native._tools.output import ToolFailure, say

KAFKA_VERSION: Final = "4.3.0"
"""The release of Apache Kafka whose tools these are like."""
Action = Callable[..., None]
"""What a tool does. It is called with the cluster and the options."""


def _integer(bits: int) -> Callable[[str], int]:
    """The ``type`` of an option whose value is a signed integer of so many bits in Kafka's protocol."""
    bound = 1 << bits - 1

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
        if not -bound <= value < bound:
            raise argparse.ArgumentTypeError(f"{text} is not between {-bound} and {bound - 1}")
        return value

    return parse


INT16: Final = _integer(16)
INT32: Final = _integer(32)
INT64: Final = _integer(64)


class _Version(argparse.Action):
    """Prints the version that programs read from Apache Kafka's tools, and this package's, and ends the tool."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        say(f"{KAFKA_VERSION} (spark-kafka-native {__version__})")
        parser.exit(0)


class _PropertiesFile(argparse.Action):
    """Stores a path, and the option as it was written in ``NAME_option``."""

    def __call__(self, _: object, namespace: object, value: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, Path(value))
        setattr(namespace, f"{self.dest}_option", option)


class ActionParser(CommandParser):
    """The options of one action of a tool. argparse ignores it if the help cannot be written."""

    def print_help(self, file: Any = None) -> None:
        """As in argparse, to stdout. Raises OutputClosed, OutputFailed."""
        if file is None:
            say(self.format_help().removesuffix("\n"))
        else:
            super().print_help(file)


class ToolParser(ActionParser):
    """Options of Kafka's tools: ``--version``, and those for the cluster."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description)
        text = "print the release of Apache Kafka with the same tools, and the version of this package"
        self.add_argument("--version", action=_Version, nargs=0, help=text)

    def add_cluster(self, *, files: Sequence[str] = ("--command-config",)) -> None:
        """``--bootstrap-server``, its older name ``--broker-list``, and properties files for the client."""
        self.add_argument(
            "--bootstrap-server",
            "--broker-list",
            dest="bootstrap_server",
            metavar="HOST:PORT[,...]",
            help="brokers of the cluster",
        )
        text = "a file with properties of the client"
        self.add_argument(*files, dest="command_config", metavar="FILE", action=_PropertiesFile, help=text)
        self.add_argument("--zookeeper", help=argparse.SUPPRESS)
        self.set_defaults(timeout=None)

    def add_timeout(self) -> None:
        """``--timeout``, which sets default.api.timeout.ms."""
        text = "longest time for one call, its retries included (default.api.timeout.ms)"
        self.add_argument("--timeout", type=INT64, metavar="MS", help=text)

    def add_actions(self, *actions: "tuple[str, Action, str]") -> None:
        """Options of which exactly one must be given, each with what ``options.action`` is then and its help."""
        group = self.add_mutually_exclusive_group(required=True)
        for name, action, text in actions:
            group.add_argument(name, dest="action", action="store_const", const=action, help=text)


def properties_in(path: Path, option: str = "") -> dict[str, str]:
    """The entries of a properties file.

    Raises ToolFailure naming the option and the file: it cannot be read, or is malformed.
    """
    try:
        return read_properties(path)
    except (OSError, ValueError) as error:
        raise ToolFailure(f"{option} {path}: {file_error(error)}".lstrip()) from error


def parse_pairs(items: Iterable[str], option: str) -> dict[str, str]:
    """Parse options of the form ``key=value``. Raises ValueError naming the option."""
    pairs: dict[str, str] = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not separator or not key.strip():
            raise ValueError(f"{option}: {item!r} is not KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs


def with_defaults(items: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """``defaults``, replaced by the pairs of ``--property``. Blanks are kept, because a separator can be a blank.

    Raises ValueError naming a property that has no default.
    """
    given = dict(item.partition("=")[::2] for item in items)
    if unknown := sorted(given.keys() - defaults.keys()):
        hint = did_you_mean(unknown[0], defaults)
        raise ValueError(f"--property: {unknown[0]!r} is not one of {', '.join(defaults)}{hint}")
    return {**defaults, **given}


def split_list(text: str) -> list[str]:
    """Split at commas outside brackets, and remove the brackets: ``a=1,b=[2,3]`` -> ``["a=1", "b=2,3"]``."""
    items: list[str] = []
    depth = 0
    item = ""
    for letter in text:
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        elif letter == "," and depth == 0:
            items.append(item)
            item = ""
        else:
            item += letter
    return [part.strip() for part in [*items, item] if part.strip()]
