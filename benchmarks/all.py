"""All benchmarks, one after the other, and the page and the plots of their results.

    python -m benchmarks.all [--list] [--only source,sink] [--more] [--quick] [--results DIR]

Each runs in a process of its own, as its own command would. One that fails does not stop the others; at the end it is
named, and the page (`benchmarks.results`) has what was found before. ``--list`` tells what there is and how long it
takes. ``--more`` adds those that have no targets.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks import results


@dataclass(frozen=True, slots=True)
class Entry:
    """A benchmark: its module, what it shows, about how long it takes, and what it is given."""

    name: str
    shows: str
    minutes: int
    arguments: tuple[str, ...] = ()
    more: bool = False
    """Not one of those that there are targets for."""
    rounds: bool = True
    """Whether it has rounds."""


ENTRIES: Final = (
    Entry("source", "reading a topic through Spark, beside the JVM connector and a stub", 45),
    Entry("sink", "writing a topic from Spark, beside the JVM connector and a stub", 60),
    Entry("start", "short queries, beside the JVM connector and a stub", 30),
    Entry("latency", "from produce to the sink's topic, beside the JVM connector", 25),
    Entry("fetch", "from a broker to Arrow, beside confluent-kafka, aiokafka and kafka-python", 70),
    Entry("records", "decoding and encoding record batches, beside a copy and others' parsers", 10),
    Entry("planning", "planning a query by the number of partitions, beside the JVM connector", 20),
    Entry("broker", "the bundled broker under a client that is not ours, beside Apache Kafka", 20),
    Entry("worker", "tasks that read many partitions, and small batches", 10),
    Entry("growth", "what a record costs as topic, partitions and segments grow", 30),
    Entry("profile", "where the CPU time of a row goes, beside the JVM connector and a stub", 10),
    Entry("settings", "what Spark's own settings bring to a source and a sink in Python", 25),
    Entry("exactly_once", "what exactly once costs a streaming query", 30, ("--jvm", "--apache"), more=True),
    Entry("exactly_once_steps", "the steps of an exactly-once micro-batch", 5, ("--apache",), more=True),
    Entry("producer", "our producer alone, and what transactions add", 3, more=True),
    Entry("mirror", "copies of a topic in another cluster, beside MirrorMaker 2", 10, more=True),
    Entry("record_producer", "single records, by our producer and those of other Python clients", 3, more=True),
    Entry("transactional_ids", "what a transactional id costs a broker", 5, ("--apache",), more=True, rounds=False),
    Entry("idle_connections", "what a connection costs that does nothing", 3, ("--apache",), more=True, rounds=False),
    Entry("broker_start", "how long a broker takes to open its logs", 5, more=True, rounds=False),
    Entry("compaction", "compacting a log", 3, more=True, rounds=False),
    Entry("confluent_avro", "Confluent's wire format and Avro", 1, more=True),
)


def main() -> None:
    """Run the selected benchmarks, and make the page and the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="what there is, and nothing more")
    parser.add_argument("--only", type=lambda names: names.split(","), help="names with commas between them")
    parser.add_argument("--more", action="store_true", help="those without targets, too")
    parser.add_argument("--quick", action="store_true", help="tiny sizes and one round, to see that all works; no page")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where JSON goes; no page and no plots unless here")
    options = parser.parse_args()
    if unknown := set(options.only or ()) - {entry.name for entry in ENTRIES}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    chosen = [
        entry for entry in ENTRIES if (entry.name in options.only if options.only else options.more or not entry.more)
    ]
    console = Console()
    console.print(_overview(ENTRIES if options.list else chosen))
    if options.list:
        return
    where = () if options.results is None else ("--results", str(options.results.resolve()))
    failed = [entry.name for entry in chosen if not _run(console, entry, [*_size(entry, quick=options.quick), *where])]
    if not options.quick and options.results is None:
        try:
            results.make()
        except results.ResultsError as error:
            sys.exit(str(error))
    if failed:
        sys.exit(f"these failed: {', '.join(failed)}")


def _size(entry: Entry, *, quick: bool) -> Sequence[str]:
    return ("--quick", *(("--rounds", "1") if entry.rounds else ())) if quick else ()


def _run(console: Console, entry: Entry, given: Sequence[str]) -> bool:
    """Whether it ended well."""
    command = [sys.executable, "-m", f"benchmarks.{entry.name}", *entry.arguments, *given]
    console.rule(entry.name)
    started = time.monotonic()
    ended_well = subprocess.run(command, check=False, cwd=results.ROOT).returncode == 0
    console.print(
        f"{entry.name}: {'done' if ended_well else 'FAILED'} after {(time.monotonic() - started) / 60:.1f} min"
    )
    return ended_well


def _overview(entries: Sequence[Entry]) -> Table:
    table = Table("benchmark", "what it shows", "minutes", title=f"{sum(entry.minutes for entry in entries)} minutes")
    for entry in entries:
        table.add_row(entry.name, entry.shows, str(entry.minutes))
    return table


if __name__ == "__main__":
    main()
