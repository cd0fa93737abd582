"""The job: from the command line to an exit status."""

import functools
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from rich.console import Console

from spark_kafka_native._command_line.commands import Command, Options
from spark_kafka_native._command_line.commands import run as run_command
from spark_kafka_native._command_line.output import BAD_USAGE, InvalidOption, say_json
from spark_kafka_native._command_line.parameters import PATH, POSITIVE, Decorator, OptionGroup, flag, option, together
from spark_kafka_native._command_line.properties import properties_in
from spark_kafka_native._java import ensure_java
from spark_kafka_native._jobs.audit import report
from spark_kafka_native._jobs.audit.content import KINDS, SAME, compare_records, count_kinds
from spark_kafka_native._jobs.audit.metadata import MAX_COUNTS, compare_offsets
from spark_kafka_native._jobs.audit.ranges import Side, source_side, target_side
from spark_kafka_native._jobs.failures import complain, reporting
from spark_kafka_native._jobs.interrupts import run_interruptible
from spark_kafka_native._jobs.points import AtTime, Point, point_of
from spark_kafka_native._jobs.session import spark_session
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.options.values import duration_ms

DIFFERS: Final = 3
"""The exit status if there are differences."""
_ABOUT: Final = """\
Compare topics with their copies in another cluster, or in the same one.

By content, each record of the source is looked for in the target. By metadata, the numbers of offsets are compared, in
all and by time; no record is read, and Spark does not start."""

_EXAMPLES: Final = """\
by content, a record of a partition is
  lost        in the source only
  extra       in the target only, such as a duplicate
  different   in both with the same key, and with another value or other headers
  reordered   in both; a record that is before it in the source is after it in the target

  Transactions that are aborted are not compared, nor are records after the first open transaction.

examples, also with spark-submit jobs/audit.py
  {command} --source-bootstrap-servers a:9092 --target-bootstrap-servers b:9092 --topics events --until -10m
  {command} ... --topic-pattern '^orders' --target-prefix east. --from -1h --until -10m
  {command} ... --topics events --by metadata --from 2026-11-20T00:00:00Z --bucket 1h
  {command} ... --topics events --output /data/differences      # all differences, in Parquet

  A copy that is being written needs --until: what is not copied yet is lost otherwise.

exit status
  0 no difference   1 it failed   2 a bad option   3 there are differences   130 interrupted"""

_SOURCE: Final = OptionGroup("Source")
_TARGET: Final = OptionGroup("Target")
_TOPICS: Final = OptionGroup("Topics", exclusive=True, required=True)
_RANGE: Final = OptionGroup("Which records")
_COMPARISON: Final = OptionGroup("Comparison")
_RESULT: Final = OptionGroup("Result")


def _cluster_options(name: str, group: OptionGroup) -> Decorator:
    servers = f"--{name}-bootstrap-servers"
    return together(
        option(servers, metavar="HOST:PORT,...", required=True, group=group, help=f"the {name} cluster"),
        option(
            f"--{name}-properties-file",
            metavar="FILE",
            type=PATH,
            group=group,
            help="a file with properties of a Kafka client; isolation.level is read_committed unless it is there",
        ),
    )


@click.command("audit", cls=Command, help=_ABOUT, epilog=_EXAMPLES)
@_cluster_options("source", _SOURCE)
@_cluster_options("target", _TARGET)
@option("--topics", metavar="A,B", group=_TOPICS, help="topics of the source")
@option("--topic-pattern", metavar="REGEX", group=_TOPICS, help="topics in whose name the expression is found")
@option(
    "--target-prefix",
    metavar="TEXT",
    default="",
    may_be_empty=True,  # the copies have the same names
    group=_RANGE,
    help="what the target's topics have before the names of the source, as those of a mirror with --prefix",
)
@option(
    "--from",
    "start",
    metavar="POINT",
    group=_RANGE,
    help="begin here in both clusters: 2026-11-20T10:00:00Z, epoch milliseconds, -2h (before now) (default: earliest)",
)
@option("--until", metavar="POINT", group=_RANGE, help="end here, written as for --from (default: latest)")
@option(
    "--by",
    type=click.Choice(["content", "metadata"]),
    default="content",
    show_default=True,
    group=_COMPARISON,
    help="what is compared",
)
@flag(
    "--across-partitions",
    group=_COMPARISON,
    help="the target has other partitions: compare topics as a whole, and the order by key",
)
@flag("--timestamps", group=_COMPARISON, help="records with other timestamps are different, too")
@option(
    "--bucket",
    metavar="TIME",
    group=_COMPARISON,
    help="with --by metadata and --from: compare by so much time, such as 15m, 1h or 1 day",
)
@option(
    "--examples",
    metavar="N",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    group=_RESULT,
    help="print at most N differences of each kind",
)
@option("--output", metavar="DIR", group=_RESULT, help="write all differences to a new directory, as Parquet files")
@option("--min-tasks", metavar="N", type=POSITIVE, group=_RESULT, help="split large partitions, for at least N tasks")
@flag("--json", "as_json", group=_RESULT, help="print JSON, an object per line, and nothing else on stdout")
def audit(**given: Any) -> int:
    """Run it until it is done or interrupted."""
    return run_interruptible(
        lambda: reporting(functools.partial(_compare, Options(**given))),
        lambda: complain("interrupted; nothing was changed", BAD_USAGE),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job, print its result, and return the exit status."""
    return run_command(audit, "audit", sys.argv[1:] if arguments is None else arguments)


def _compare(options: Options) -> int:
    _check(options)
    now_ms = time.time() * 1000
    start, until = point_of("--from", options.start), point_of("--until", options.until)
    bucket_ms = _bucket(options.bucket)
    source = _opened(
        options,
        "source",
        lambda properties: source_side(properties, _subscription(options), start, until, now_ms),
    )
    target = _opened(
        options,
        "target",
        lambda properties: target_side(properties, source, options.target_prefix, start, until, now_ms),
    )
    console = Console(highlight=False, markup=False, stderr=options.as_json)
    if options.by == "metadata":
        boundaries = _boundaries(start, until, bucket_ms, now_ms, len(source.ranges) + len(target.ranges))
        return _by_metadata(options, source, target, boundaries, console)
    ensure_java()
    with spark_session("audit", tasks=max(len(source.ranges), options.min_tasks or 1)) as spark:
        return _by_content(options, source, target, spark, console)


def _by_metadata(options: Options, source: Side, target: Side, boundaries: Sequence[int], console: Console) -> int:
    counts = list(compare_offsets(source, target, boundaries, across_partitions=options.across_partitions))
    if options.as_json:
        for each in counts:
            say_json(report.offsets_record(each))
    else:
        # Buckets that are equal would hide the others.
        shown = [each for each in counts if each.bucket_ms is None or each.source != each.target]
        console.print(report.offsets_table(shown))
    different = [
        each for each in counts if each.source != each.target and (each.bucket_ms is not None or not boundaries)
    ]
    total = sum(each.source for each in counts if each.bucket_ms is None)
    if not options.as_json:
        console.print(report.result_line(total, sum(abs(each.target - each.source) for each in different), "offsets"))
    return DIFFERS if different else 0


def _by_content(options: Options, source: Side, target: Side, spark: SparkSession, console: Console) -> int:
    outcome = compare_records(
        _frame(spark, source, options),
        _frame(spark, target, options),
        with_timestamps=options.timestamps,
        across_partitions=options.across_partitions,
    )
    rows = count_kinds(outcome, across_partitions=options.across_partitions).orderBy("topic", "partition").collect()
    if options.as_json:
        for row in rows:
            say_json(row.asDict())
    else:
        console.print(report.kinds_table(rows))
    total = sum(row[kind] for row in rows for kind in KINDS)
    differences = outcome.where(F.col("kind") != SAME)
    if total and options.examples:
        examples = _examples(differences, options.examples)
        if options.as_json:
            for row in examples:
                say_json(report.difference_record(row))
        else:
            console.print(report.differences_table(examples))
    if options.output:
        differences.write.mode("error").parquet(options.output)
    if not options.as_json:
        console.print(report.result_line(sum(row["source"] for row in rows), total, "records"))
    return DIFFERS if total else 0


def _examples(differences: DataFrame, limit: int) -> list[Row]:
    """The first differences of each kind, in the order of KINDS."""
    order = Window.partitionBy("kind").orderBy("topic", "source", "target")
    first = differences.withColumn("number", F.row_number().over(order)).where(F.col("number") <= limit)
    return sorted(first.collect(), key=lambda row: (KINDS.index(row["kind"]), row["number"]))


def _frame(spark: SparkSession, side: Side, options: Options) -> DataFrame:
    reading = dict(side.reading)
    if options.min_tasks:
        reading["minPartitions"] = str(options.min_tasks)
    frame = spark.read.format("pykafka").options(**reading).load()
    return frame.withColumn("topic", F.substring("topic", len(side.prefix) + 1, 2**31 - 1))


# --- options


def _check(options: Options) -> None:
    """Raise InvalidOption."""
    by_metadata = options.by == "metadata"
    for name, value in (("--timestamps", options.timestamps), ("--output", options.output)):
        if by_metadata and value:
            raise InvalidOption(f"{name} has no effect with --by metadata")
    if options.bucket is not None and (not by_metadata or options.start is None):
        raise InvalidOption("--bucket needs --by metadata and --from")


def _subscription(options: Options) -> tuple[str, str]:
    if options.topics is not None:
        return "subscribe", options.topics
    return "subscribePattern", options.topic_pattern


def _bucket(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        bucket_ms = duration_ms(text)
    except ValueError as error:
        raise InvalidOption(f"--bucket: {error}") from None
    if bucket_ms <= 0:
        raise InvalidOption(f"--bucket: {text!r} is not greater than 0")
    return bucket_ms


def _boundaries(
    start: Point | None, until: Point | None, bucket_ms: int | None, now_ms: float, partitions: int
) -> Sequence[int]:
    """Where buckets begin, ascending. Raises InvalidOption."""
    if bucket_ms is None:
        return []
    if not isinstance(start, AtTime) or not isinstance(until, AtTime | None):
        raise InvalidOption("--bucket needs times in --from and --until")
    begin_ms = start.milliseconds(round(now_ms))
    end_ms = round(now_ms) if until is None else until.milliseconds(round(now_ms))
    boundaries = range(begin_ms, max(end_ms, begin_ms + 1), bucket_ms)
    if len(boundaries) * partitions > MAX_COUNTS:
        text = f"--bucket: {len(boundaries):,} buckets of {partitions:,} partitions are more than {MAX_COUNTS:,}"
        raise InvalidOption(f"{text}; choose a longer time")
    return boundaries


def _opened(options: Options, name: str, opened: Any) -> Side:
    """A side of the comparison; errors name the options of its cluster."""
    file_option = f"--{name}-properties-file"
    path = getattr(options, f"{name}_properties_file")
    properties = {} if path is None else properties_in(path, file_option)
    reading: dict[str, str] = {"kafka.isolation.level": "read_committed"}
    reading |= {f"kafka.{key.removeprefix('kafka.')}": value for key, value in properties.items()}
    reading["kafka.bootstrap.servers"] = getattr(options, f"{name}_bootstrap_servers")
    try:
        side: Side = opened(reading)
    except (ConfigError, OptionError) as error:
        raise InvalidOption(f"{_origin(error.option, name, properties)}: {error.message}") from error
    return side


def _origin(source_option: str, name: str, properties: Mapping[str, str]) -> str:
    """The option of the command line that has set an option of the data source."""
    lower = source_option.lower()
    if lower == "kafka.bootstrap.servers":
        return f"--{name}-bootstrap-servers"
    if lower in {"subscribe", "subscribepattern"}:
        return "--topics" if lower == "subscribe" else "--topic-pattern"
    given = next((key for key in properties if lower == f"kafka.{key.removeprefix('kafka.')}".lower()), None)
    return f"--{name}-properties-file: {given or source_option}"
