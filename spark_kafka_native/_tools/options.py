"""Options that several tools have, and their values."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import click

from spark_kafka_native._command_line.commands import PACKAGE_VERSION, Options, ToolCommand, version_flag
from spark_kafka_native._command_line.output import InvalidOption
from spark_kafka_native._command_line.parameters import (
    INT64,
    PATH,
    Decorator,
    OptionGroup,
    option,
    together,
    unsupported,
)
from spark_kafka_native._protocol.nearest import did_you_mean

_T = TypeVar("_T")
KAFKA_VERSION: Final = "4.3.0"
"""The release of Apache Kafka whose tools these are like."""
ACTIONS: Final = OptionGroup("Actions", exclusive=True, required=True)
FILES: Final = {
    "command_config": "--command-config",
    "consumer_config": "--consumer.config",
    "producer_config": "--producer.config",
}
"""The names of the option for the client's properties."""
_CLUSTER: Final = OptionGroup("Cluster")

kafka_version = version_flag(
    f"{KAFKA_VERSION} ({PACKAGE_VERSION})",
    "print the release of Apache Kafka with the same tool, and this package's version",
)
"""``--version`` of Kafka's tools. Programs read the first version."""


def command(name: str, summary: str, epilog: str = "") -> Callable[[Callable[..., Any]], ToolCommand]:
    """Make a command with ``--version`` from a function with options."""

    def decorate(function: Callable[..., Any]) -> ToolCommand:
        made: ToolCommand = click.command(name, cls=ToolCommand, help=summary, epilog=epilog)(kafka_version(function))
        return made

    return decorate


def chosen_action(actions: Mapping[str, _T], options: Options) -> _T:
    """Of the actions that options name, the one that is given."""
    return next(action for name, action in actions.items() if getattr(options, name))


def cluster_options(older_name: str = "") -> Decorator:
    """``--bootstrap-server``, and ``--command-config``; ``older_name`` is another name of this one."""
    files = [
        option(file, name, type=PATH, metavar="FILE", group=_CLUSTER, help="a file with properties of the client")
        for name, file in FILES.items()
        if file in {"--command-config", older_name}
    ]
    return together(
        option(
            "--bootstrap-server", "--broker-list", "bootstrap_server", metavar="HOST:PORT[,...]", group=_CLUSTER,
            help="brokers of the cluster (required)",
        ),
        *files,
        unsupported("use --bootstrap-server HOST:PORT", "--zookeeper"),
    )  # fmt: skip


timeout_option = option(
    "--timeout",
    type=INT64,
    metavar="MS",
    help="longest time for one call, its retries included (default.api.timeout.ms)",
)


def with_defaults(items: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """``defaults``, replaced by the pairs of ``--property``. Blanks are kept, because a separator can be a blank.

    Raises InvalidOption naming a property that has no default.
    """
    given = dict(item.partition("=")[::2] for item in items)
    if unknown := sorted(given.keys() - defaults.keys()):
        hint = did_you_mean(unknown[0], defaults)
        raise InvalidOption(f"--property: {unknown[0]!r} is not one of {', '.join(defaults)}{hint}")
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
