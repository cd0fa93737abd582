"""``kafka-mirror-maker.sh``: copy the topics of one or more clusters to another one, until it is stopped."""

import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.groups.topic_filters import Blacklist, TopicFilter, Whitelist
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, say_record
from spark_kafka_native._command_line.parameters import INT16, PATH, POSITIVE, OptionGroup, flag, option, unsupported
from spark_kafka_native._command_line.properties import properties_in
from spark_kafka_native._mirror.config import MirrorConfig, SourceConfig
from spark_kafka_native._mirror.forwarding_stream import MirrorMetrics
from spark_kafka_native._mirror.mirror import Mirror
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._tools.connection import known_properties
from spark_kafka_native._tools.options import command
from spark_kafka_native._tools.tables import json_flag

_MB: Final = 1 << 20
_CHECK_S: Final = 0.2
"""Between two checks whether the mirror is stopped or, with --until-end, at the ends."""
_SERIALIZERS: Final = frozenset({"key.serializer", "value.serializer"})
"""Files for Apache Kafka's tool have them. Keys and values are copied as they are."""
_CLUSTERS: Final = OptionGroup("Clusters")
_TOPICS: Final = OptionGroup("Topics", exclusive=True, required=True)
_COPIES: Final = OptionGroup("Copies")


@command(
    "kafka-mirror-maker",
    "Copy the topics of one or more clusters to another one.",
    """\
A source and its group: bootstrap.servers and group.id in --consumer.config. Mirrors with the same group.id share the
partitions. The target: bootstrap.servers in --producer.config.

examples
  {command} --consumer.config east.properties --producer.config central.properties --include 'orders|visits'
  {command} --consumer.config east.properties --consumer.config west.properties --prefix east. --prefix west. \\
      --producer.config central.properties --include '.*' --num.streams 4 --exactly-once""",
)
@option(
    "--consumer.config",
    "sources",
    type=PATH,
    metavar="FILE",
    multiple=True,
    required=True,
    group=_CLUSTERS,
    help="properties of a consumer of a source; the option can be repeated",
)
@option(
    "--producer.config",
    "target",
    type=PATH,
    metavar="FILE",
    required=True,
    group=_CLUSTERS,
    help="properties of a producer of the target",
)
@option("--include", "--whitelist", "include", metavar="REGEX", group=_TOPICS, help="copy topics whose names match")
@option(
    "--exclude", "--blacklist", "exclude", metavar="REGEX", group=_TOPICS, help="copy topics whose names do not match"
)
@option(
    "--prefix",
    "prefixes",
    metavar="TEXT",
    multiple=True,
    may_be_empty=True,  # one source may have none
    group=_COPIES,
    help="what the names of the copies have before those of the source; once for each --consumer.config",
)
@flag("--exactly-once", group=_COPIES, help="write each record once: in transactions, with the offsets at the target")
@flag("--no-create-topics", group=_COPIES, help="do not create topics and partitions that the target does not have")
@option(
    "--replication-factor",
    type=INT16,
    metavar="N",
    default=-1,
    group=_COPIES,
    help="of topics that are created (-1: the default of the target's brokers)",
)
@option(
    "--num.streams", "streams", type=POSITIVE, metavar="N", default=1, group=_COPIES, help="threads of each source (1)"
)
@option(
    "--offset.commit.interval.ms",
    "commit_interval_ms",
    type=POSITIVE,
    metavar="MS",
    group=_COPIES,
    help="time between commits of offsets, and longest time of a transaction (auto.commit.interval.ms: 5000)",
)
@option(
    "--abort.on.send.failure",
    "aborts",
    type=click.BOOL,
    metavar="true|false",
    default=True,
    group=_COPIES,
    help="end if the target cannot be written to within delivery.timeout.ms (true); false: try again without end",
)
@flag("--until-end", help="end when everything is copied that the sources have now")
@option(
    "--report-interval",
    type=POSITIVE,
    metavar="S",
    help="print every S seconds what was copied, and the number of offsets that remain",
)
@unsupported(
    "this tool runs no Java classes",
    *("--message.handler", "--message.handler.args", "--consumer.rebalance.listener", "--rebalance.listener.args"),
)
@json_flag
def mirror(**given: Any) -> None:
    """Ends after SIGTERM or Ctrl-C, when what was sent is acknowledged and its offsets are committed."""
    options = Options(**given)
    config = _config(options)
    began = time.monotonic()
    with _logging(), _stoppable() as stopped:
        running = Mirror(config)
        try:
            with running:
                _run(running, options, stopped, began)
        except KafkaError as error:
            raise ToolFailed(str(error)) from error
        finally:
            if options.report_interval or options.until_end:
                _report(running.metrics, MirrorMetrics(), began, None, as_json=options.as_json)


def _run(running: Mirror, options: Options, stopped: threading.Event, began: float) -> None:
    """Until the mirror is stopped or, with --until-end, has copied everything. Raises KafkaError."""
    ends = [source.ends() for source in running.sources] if options.until_end else None
    before, reported_at = MirrorMetrics(), began
    while not stopped.is_set():
        running.wait(_CHECK_S)
        if ends is not None and not any(
            source.remaining(of_source) for source, of_source in zip(running.sources, ends, strict=True)
        ):
            return
        if options.report_interval and time.monotonic() - reported_at >= options.report_interval:
            remaining = sum(source.remaining(source.ends()) for source in running.sources)
            metrics = running.metrics
            _report(metrics, before, reported_at, remaining, as_json=options.as_json)
            before, reported_at = metrics, time.monotonic()


def _report(
    metrics: MirrorMetrics, before: MirrorMetrics, since: float, remaining: int | None, *, as_json: bool
) -> None:
    """A line about what was copied; ``remaining`` is None for the last one, which is about the whole run."""
    seconds = time.monotonic() - since
    records, sent = metrics.records - before.records, metrics.bytes_sent - before.bytes_sent
    rate = sent / _MB / seconds if seconds > 0 else 0.0
    record = {
        "seconds": round(seconds, 3),
        "records": records,
        "batches": metrics.batches - before.batches,
        "bytes": sent,
        "remainingOffsets": remaining,
    }
    text = f"{records} records, {sent / _MB:.2f} MB ({rate:.2f} MB/s) in {seconds:.1f} s"
    say_record(record, text if remaining is None else f"{text}; {remaining} offsets remain", as_json=as_json)


# --- options


def _config(options: Options) -> MirrorConfig:
    """Raises InvalidOption naming the option and the property; ToolFailed: a file cannot be read."""
    prefixes = _prefixes(options)
    sources = [_source(path, prefix, options) for path, prefix in zip(options.sources, prefixes, strict=True)]
    origin = f"--producer.config {options.target}"
    with _naming(origin):
        given = properties_in(options.target, "--producer.config")
        properties = {name: value for name, value in given.items() if name.strip() not in _SERIALIZERS}
        return MirrorConfig(
            sources=tuple(sources),
            target=ClientConfig.parse(known_properties(origin, properties)),
            topics=_topics(options),
            streams=options.streams,
            exactly_once=options.exactly_once,
            creates_topics=not options.no_create_topics,
            aborts_on_send_failure=options.aborts,
            replication_factor=options.replication_factor,
        )


def _prefixes(options: Options) -> Sequence[str]:
    sources = len(options.sources)
    if not options.prefixes:
        return [""] * sources
    if len(options.prefixes) != sources:
        text = f"--prefix is given {len(options.prefixes)} times, and --consumer.config {sources} times"
        raise InvalidOption(f"{text}; give one prefix for each source, which can be empty")
    prefixes: Sequence[str] = options.prefixes
    return prefixes


def _source(path: Path, prefix: str, options: Options) -> SourceConfig:
    properties: dict[str, object] = dict(properties_in(path, "--consumer.config"))
    if options.commit_interval_ms is not None:
        properties = {name: value for name, value in properties.items() if name.strip() != "auto.commit.interval.ms"}
        properties["auto.commit.interval.ms"] = options.commit_interval_ms
    with _naming(f"--consumer.config {path}"):
        return SourceConfig.parse(properties, prefix=prefix, exactly_once=options.exactly_once)


def _topics(options: Options) -> TopicFilter:
    name, kind, expression = (
        ("--include", Whitelist, options.include)
        if options.include is not None
        else ("--exclude", Blacklist, options.exclude)
    )
    try:
        return kind(expression)
    except ValueError as error:
        raise InvalidOption(f"{name}: {error}") from None


@contextmanager
def _naming(origin: str) -> Iterator[None]:
    """Name the file in errors of its properties."""
    try:
        yield
    except ConfigError as error:
        raise InvalidOption(f"{origin}: {error}") from error


# --- the process


@contextmanager
def _logging() -> Iterator[None]:
    """Print what the mirror and its clients log to stderr."""
    logger = logging.getLogger("spark_kafka_native")
    handler, level = logging.StreamHandler(sys.stderr), logger.level
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


@contextmanager
def _stoppable() -> Iterator[threading.Event]:
    """An event that SIGTERM sets, while the block runs."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped  # only the main thread handles signals
        return
    before = signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGTERM, before)
