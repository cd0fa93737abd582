"""Stream page views through two queries, and compare every record.

``pykafka quickstart --bootstrap-servers HOST:PORT`` runs it on any cluster, in three topics of its own that it deletes
afterwards unless ``--keep`` is given. ``spark-submit jobs/quickstart.py`` does the same. Without
``--bootstrap-servers`` it starts the bundled broker in a temporary directory.

1. Produce the events, counting views per page on the way.
2. Stream: count views per page (complete mode) into a second topic, and copy the events into a third.
3. Read the topics back and compare: every event once in the copy, key and value the same, and the counts equal.

Exit status: 0 when all of that holds, 1 when it does not or the job failed, 2 for a bad option, 130 when interrupted.
"""

import contextlib
import dataclasses
import json
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from spark_kafka_native._client.admin.topics import NewTopic, create_topics, delete_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._command_line.commands import Command
from spark_kafka_native._command_line.commands import run as run_command
from spark_kafka_native._command_line.parameters import POSITIVE, flag, option
from spark_kafka_native._java import JavaMissing, ensure_java
from spark_kafka_native._jobs.comparison import Comparison, compare
from spark_kafka_native._jobs.interrupts import run_interruptible, stop_interrupted
from spark_kafka_native._jobs.page_views import page_views
from spark_kafka_native._jobs.session import spark_session
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.errors import KafkaError

_SERVERS: Final = "--bootstrap-servers"
_EXAMPLES: Final = """\
examples
  {command}
  {command} --bootstrap-servers kafka-1:9092,kafka-2:9092 --events 1000000 --partitions 8"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed command line."""

    bootstrap_servers: str | None
    events: int
    partitions: int
    events_per_trigger: int
    checkpoints: str | None
    keep: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Topics:
    """The three topics of one run."""

    events: str
    counts: str
    copy: str

    @classmethod
    def fresh(cls) -> "Topics":
        """Names that no earlier run has used."""
        run = secrets.token_hex(3)
        return cls(*(f"quickstart-{run}-{name}" for name in ("events", "counts", "copy")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the quick start and report the result; the exit status."""
    return run_command(quickstart, "quickstart", sys.argv[1:] if arguments is None else arguments)


@click.command("quickstart", cls=Command, help=(__doc__ or "").partition("\n")[0], epilog=_EXAMPLES)
@option(_SERVERS, "--bootstrap-server", metavar="HOST:PORT,...", help="a cluster; default: the bundled broker")
@option("--events", type=POSITIVE, default=200_000, metavar="N", show_default=True, help="how many events")
@option("--partitions", type=POSITIVE, default=4, metavar="N", show_default=True, help="partitions per topic")
@option(
    "--events-per-trigger", type=POSITIVE, default=50_000, metavar="N", show_default=True, help="maxOffsetsPerTrigger"
)
@option(
    "--checkpoints",
    metavar="DIR",
    help="directory of the queries' checkpoints, which are kept; with several nodes one that all nodes share "
    "(default: a temporary directory on this machine)",
)
@flag("--keep", help="leave the three topics in place")
def quickstart(**given: Any) -> int:
    """Run it until it is done or interrupted."""
    options = Options(**given)
    return run_interruptible(lambda: _run_and_report(options), lambda: _complain("interrupted"))


def _run_and_report(options: Options) -> int:
    console = Console(highlight=False, markup=False)
    try:
        console.print(ensure_java(), style="dim", soft_wrap=True)
        with _cluster(options, console) as bootstrap_servers:
            result = run(bootstrap_servers, options, console)
    except ConfigError as error:  # of the only property that is given here
        _complain(f"{_SERVERS}: {error.message}")
        return 2
    except (JavaMissing, KafkaError, PySparkException, Py4JError) as error:
        _complain(str(error).partition("\n=== Streaming Query ===")[0].strip())  # the query's plan follows
        return 1
    console.print(_table(result))
    for page in result.wrong_counts:
        console.print(f"{page.page}: {page.sent} views were sent and {page.counted} counted", style="red")
    console.print(
        f"demo: {result.rows_in} in, {result.rows_out} out, {result.lost} lost, {result.duplicated} duplicated",
        soft_wrap=True,
    )
    return 0 if result.perfect and result.rows_in == options.events else 1


def _complain(reason: str) -> None:
    console = Console(stderr=True, highlight=False, markup=False)
    console.print(f"{click.get_current_context().command_path}: {reason}", style="red", soft_wrap=True)


def run(bootstrap_servers: str, options: Options, console: Console) -> Comparison:
    """Produce, stream, compare. Raises KafkaError, PySparkException."""
    config = ClientConfig.parse({"bootstrap.servers": bootstrap_servers}, servers_option=_SERVERS)
    with (
        Cluster(config, warns=True) as cluster,
        _fresh_topics(cluster, options) as topics,
        _progress(console) as progress,
    ):
        sent = produce(cluster, topics.events, options.events, progress)
        starting = progress.add_task("start Spark", total=1)
        with spark_session("quickstart", tasks=options.partitions) as spark:
            progress.advance(starting)
            stream(spark, bootstrap_servers, topics, options, progress)
            comparing = progress.add_task("compare records", total=options.events)
            result = compare(spark, bootstrap_servers, **dataclasses.asdict(topics), sent=sent)
            progress.update(comparing, completed=result.rows_out)
        return result


def produce(cluster: Cluster, topic: str, count: int, progress: Progress) -> Counter[str]:
    """Write ``count`` events; views per page as they were sent. All are acknowledged on return. Raises KafkaError."""
    views: Counter[str] = Counter()
    bar = progress.add_task("produce events", total=count)
    with Producer(cluster) as producer:
        for chunk in page_views(count, start_ms=time.time_ns() // 1_000_000 - count):
            producer.send(topic, chunk)
            views.update(_views_per_page(chunk))
            progress.advance(bar, chunk.num_rows)
    return views


def stream(spark: SparkSession, bootstrap_servers: str, topics: Topics, options: Options, progress: Progress) -> None:
    """Run both queries over the events that are there, one after the other, until they end (Trigger.AvailableNow)."""
    events = (
        spark.readStream.format("pykafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topics.events)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.events_per_trigger)
        .load()
    )
    page = F.get_json_object(events.value.cast("string"), "$.page")
    counts = events.groupBy(page.alias("key")).count().select("key", F.col("count").cast("string").alias("value"))
    copy = events.select("key", "value", "partition")
    with _checkpoints(options) as checkpoints:
        for name, frame, topic, mode in (
            ("count views per page", counts, topics.counts, "complete"),
            ("copy events", copy, topics.copy, "append"),
        ):
            writer = (
                frame.writeStream.format("pykafka")
                .option("kafka.bootstrap.servers", bootstrap_servers)
                .option("topic", topic)
                .option("checkpointLocation", f"{checkpoints}/{topic}")
                .outputMode(mode)
                .trigger(availableNow=True)
                .queryName(topic)
            )
            with _stopped_on_error(spark, topic):
                _watch(writer.start(), progress, progress.add_task(name, total=options.events))


@contextlib.contextmanager
def _cluster(options: Options, console: Console) -> Iterator[str]:
    """The bootstrap servers of the cluster, which is the bundled broker in a temporary directory by default."""
    if options.bootstrap_servers is not None:
        yield options.bootstrap_servers
        return
    from broker_embedded.testing import EmbeddedBroker  # noqa: PLC0415  # only this demo starts a broker

    with EmbeddedBroker() as broker:
        console.print(f"bundled broker on {broker.bootstrap_servers}", style="dim", soft_wrap=True)
        yield broker.bootstrap_servers


@contextlib.contextmanager
def _fresh_topics(cluster: Cluster, options: Options) -> Iterator[Topics]:
    topics = Topics.fresh()
    names = dataclasses.astuple(topics)
    cluster.metadata(names, missing_ok=True)  # raises one error if no broker can be reached, not one for each topic
    create_topics(cluster, [NewTopic(name=name, partitions=options.partitions) for name in names])
    try:
        yield topics
    except BaseException:
        # Report the first error, not that the topics could not be deleted.
        with contextlib.suppress(KafkaError):
            _delete(cluster, names, options)
        raise
    _delete(cluster, names, options)


def _delete(cluster: Cluster, names: Sequence[str], options: Options) -> None:
    if not options.keep:
        delete_topics(cluster, names)


@contextlib.contextmanager
def _checkpoints(options: Options) -> Iterator[str]:
    """A directory, or a URL of one that Spark's nodes share."""
    if options.checkpoints:
        yield options.checkpoints.rstrip("/")
        return
    with tempfile.TemporaryDirectory(prefix="quickstart-checkpoints-") as directory:
        yield directory


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _views_per_page(chunk: pa.RecordBatch) -> Mapping[str, int]:
    text = chunk.column("value").cast(pa.string())
    page = pc.struct_field(pc.extract_regex(text, '"page": "(?P<page>[^"]*)"'), "page")
    return {str(row["values"]): int(row["counts"]) for row in pc.value_counts(page).to_pylist()}


@contextlib.contextmanager
def _stopped_on_error(spark: SparkSession, name: str) -> Iterator[None]:
    """Stop the query of this name if the block raises: the session may be the caller's, which runs on."""

    def stop() -> None:
        for query in spark.streams.active:
            if query.name == name:
                query.stop()

    try:
        yield
    except BaseException:
        stop_interrupted(stop)
        raise


def _watch(query: StreamingQuery, progress: Progress, bar: TaskID) -> None:
    """Move the bar until the query ends. Raises StreamingQueryException when it fails."""
    while not query.awaitTermination(1):
        progress.update(bar, completed=_position(query))
    progress.update(bar, completed=_position(query))


def _position(query: StreamingQuery) -> int:
    """How many records of a topic that began at offset 0 the query has read."""
    report = query.lastProgress
    offsets = json.loads(report.sources[0].endOffset or "{}") if report else {}
    return sum(sum(partitions.values()) for partitions in offsets.values())


def _table(result: Comparison) -> Table:
    table = Table("page", box=box.SIMPLE_HEAD)
    table.add_column("views sent", justify="right")
    table.add_column("views counted", justify="right")
    for page in result.pages:
        table.add_row(page.page, f"{page.sent:,}", "none" if page.counted is None else f"{page.counted:,}")
    return table
