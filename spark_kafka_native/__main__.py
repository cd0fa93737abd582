"""``pykafka``, or ``python -m spark_kafka_native``: the tools, the jobs and the broker under one name."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click
from click.shell_completion import get_completion_class, shell_complete

from spark_kafka_native._command_line.commands import PACKAGE_VERSION, Lazy, LazyGroup, ToolCommand, run, version_flag
from spark_kafka_native._command_line.output import say
from spark_kafka_native._extras import SparkMissing
from spark_kafka_native._tools.dispatch import TOOLS

_NAME: Final = "pykafka"
_COMPLETE: Final = "_PYKAFKA_COMPLETE"
"""The environment variable in which a shell asks for completions."""
_GROUPS: Final = "spark_kafka_native._tools.groups"
_BROKER: Final = "broker_embedded._tools"
_EXIT_STATUS: Final = """\
exit status
  0 done   1 it failed   2 a bad option   3 see the help of lag and reload
  130 interrupted   141 the reader of the output has closed it

Commands with a script in Apache Kafka take its options: `pykafka topics` is kafka-topics."""

_COMPLETION: Final = f"""\
In ~/.bashrc:                     eval "$({_NAME} completion bash)"
In ~/.zshrc:                      eval "$({_NAME} completion zsh)"
In ~/.config/fish/config.fish:    {_NAME} completion fish | source"""

_CONSOLE: Final = {
    "consume": TOOLS["kafka-console-consumer"],
    "produce": TOOLS["kafka-console-producer"],
}
console: Final = LazyGroup({"Commands": _CONSOLE}, name="console", help="Read and write records as text.")
_PERFORMANCE: Final = {
    "consume": TOOLS["kafka-consumer-perf-test"],
    "fetch": TOOLS["kafka-simple-consumer-perf-test"],
    "produce": TOOLS["kafka-producer-perf-test"],
}
performance: Final = LazyGroup(
    {"Commands": _PERFORMANCE}, name="perf", help="Measure how fast records are written and read."
)
SECTIONS: Final[Mapping[str, Mapping[str, Lazy]]] = {
    "Cluster": {
        "topics": TOOLS["kafka-topics"],
        "configs": TOOLS["kafka-configs"],
        "groups": TOOLS["kafka-consumer-groups"],
        "lag": Lazy(
            "spark_kafka_native._tools.groups.lag:lag", "Print the lag of consumer groups, or of streaming queries."
        ),
        "lookup-table": TOOLS["kafka-lookup-table"],
        "mirror": TOOLS["kafka-mirror-maker"],
        "offsets": TOOLS["kafka-get-offsets"],
        "transactions": TOOLS["kafka-transactions"],
    },
    "Records": {
        "console": Lazy(f"{__name__}:console", "Read and write records as text."),
        "delete-records": TOOLS["kafka-delete-records"],
        "import-log": TOOLS["kafka-import-log"],
        "perf": Lazy(f"{__name__}:performance", "Measure how fast records are written and read."),
        "reload": Lazy(
            "spark_kafka_native._jobs.batch_reload.command:batch_reload",
            "Load topics into files, each record exactly once.",
        ),
    },
    "Spark": {
        "quickstart": Lazy(
            "spark_kafka_native._jobs.quickstart:quickstart",
            "Stream page views through two queries, and compare every record.",
        ),
        "audit": Lazy("spark_kafka_native._jobs.audit.command:audit", "Compare topics with their copies."),
        "exactly-once": TOOLS["exactly-once"],
    },
    "Bundled broker": {
        "broker": Lazy("broker_embedded.__main__:broker", "Run the bundled broker."),
        "storage": Lazy(f"{_BROKER}.storage:storage", "Format a data directory, and describe it."),
        "dump": Lazy(f"{_BROKER}.dump_log:dump_log", "Print the files of a partition's directory."),
        "home": Lazy(f"{_BROKER}.home:home", "Make a KAFKA_HOME with scripts of Kafka's names."),
    },
    "Shell": {
        "completion": Lazy(f"{__name__}:completion", "Print a completion script for a shell."),
    },
}


@click.command("completion", cls=ToolCommand, help="Print a completion script for a shell.", epilog=_COMPLETION)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """A script for the shell."""
    made = get_completion_class(shell)
    assert made is not None
    say(made(pykafka, {}, _NAME, _COMPLETE).source())


@click.group(
    _NAME,
    cls=LazyGroup,
    sections=SECTIONS,
    help="Kafka for PySpark: tools for clusters, jobs of Spark, and the bundled broker.",
    epilog=_EXIT_STATUS,
)
@version_flag(PACKAGE_VERSION, "print the version")
def pykafka() -> None:
    """The options are those of the command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status."""
    instruction = os.environ.get(_COMPLETE)
    if instruction and "COMP_WORDS" in os.environ:  # completion scripts set both
        try:
            return shell_complete(pykafka, {}, _NAME, _COMPLETE, instruction)
        except SparkMissing:  # the command says so when it runs
            return 1
    return run(pykafka, _NAME, sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
