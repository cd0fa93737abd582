"""Option strings -> ``SourceOptions`` and ``SinkOptions``; every error of an option is raised here.

Names are case-insensitive. ``kafka.*`` options are Kafka client properties, validated by ``ClientConfig``. An unknown
name is an error with the nearest name as a suggestion, and so is an option that only the JVM connector has.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from spark_kafka_native._client.config import PROPERTIES, ClientConfig
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.nearest import nearest_name
from spark_kafka_native._spark.errors import OptionError, redacted
from spark_kafka_native._spark.offsets import Earliest, Latest
from spark_kafka_native._spark.options.companions import LOOKUP_TABLE, check_companions, check_lookup, check_rates
from spark_kafka_native._spark.options.exactly_once import exactly_once
from spark_kafka_native._spark.options.limits import check_batch_limits, ending_limit, starting_limit
from spark_kafka_native._spark.options.parsed import SinkOptions, SourceOptions
from spark_kafka_native._spark.options.table import SINK_OPTIONS, SOURCE_OPTIONS, Option
from spark_kafka_native._spark.subscription import Subscription

_log = logging.getLogger(__name__)


class Query(Enum):
    """How a source is read."""

    BATCH = "batch"
    STREAM = "streaming"


_SPARKS_OWN: Final = frozenset(
    {
        # Table properties, which Spark passes to a source or sink of a SQL table.
        *("collation", "comment", "external", "is_managed_location", "location", "owner", "provider", "table_type"),
        # load(path), save(path), start(path): has no effect here, and Spark sometimes adds it.
        "path",
        # Options of a streaming query rather than of its sink.
        *("checkpointlocation", "queryname"),
        *("asyncprogresstrackingenabled", "asyncprogresstrackingcheckpointintervalms"),
        "_asyncprogresstrackingoverridesinksupportcheck",
    }
)
_SPARKS_OWN_PREFIX: Final = "option."

_OF_DATABRICKS: Final[Mapping[str, str]] = {
    "bytesestimatewindowlength": "the progress listener of this package reports bytes and lag",
    "databricks.servicecredential": "use options 'kafka.security.protocol' and 'kafka.sasl.mechanism'",
}
"""Options of Databricks' connector, and what to use instead."""

_REFUSED_BY_SOURCE: Final[Mapping[str, str]] = {
    "auto.offset.reset": "is not supported; use option 'startingOffsets' for a new query",
    "enable.auto.commit": "is not supported; the query's checkpoint has its offsets",
    "interceptor.classes": "is not supported; Java interceptors cannot run here",
    "key.deserializer": "is not supported; keys are read as binary, cast the column key instead",
    "transactional.id": "is not supported; a source writes nothing",
    "value.deserializer": "is not supported; values are read as binary, cast the column value instead",
}
_REFUSED_BY_SINK: Final[Mapping[str, str]] = {
    "key.serializer": "is not supported; keys are written as they are, string or binary",
    "transactional.id": "is not supported; tasks write concurrently, and producers with the same id fence each other: "
    "use options 'delivery.guarantee' and 'transactional.id.prefix', with which each task has its own id",
    "value.serializer": "is not supported; values are written as they are, string or binary",
}


_ONLY_IN_STREAMS: Final = frozenset(
    option.name.lower() for option in SOURCE_OPTIONS if not option.batch and not option.ignored_in_batch
)
_ONLY_IN_BATCHES: Final = frozenset(option.name for option in SOURCE_OPTIONS if not option.stream)


def parse_source_options(options: Mapping[str, str], query: Query) -> SourceOptions:
    """Options of ``spark.read`` or ``spark.readStream`` -> checked values. Raises OptionError naming the option."""
    parsed = _parse_source(options, query)
    if query is Query.BATCH:
        names = {name.lower() for name in options}
        for option in SOURCE_OPTIONS:
            if option.ignored_in_batch and option.name.lower() in names:
                _log.warning("option '%s' has no effect in a batch query", option.name)
    return parsed


def _parse_source(options: Mapping[str, str], query: Query) -> SourceOptions:
    given = _split_off_spark(options)
    values = _parse_table(given, SOURCE_OPTIONS, other_side=SINK_OPTIONS)
    client = _client({name: text for name, text in given.items() if name != "kafka.group.id"}, _REFUSED_BY_SOURCE)
    subscription = _one_subscription(values)
    _check_query(values, query)
    check_companions(values)
    starting = starting_limit(values, default=Latest() if query is Query.STREAM else Earliest())
    ending = ending_limit(values)
    if query is Query.BATCH:
        check_batch_limits(starting, ending)
    else:
        check_rates(values)
    value = _value_of(values, SOURCE_OPTIONS)
    return SourceOptions(
        client=client,
        subscription=subscription,
        starting=starting,
        ending=ending,
        bind_at_load=value("bindOffsets") == "load",
        max_offsets_per_trigger=value("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=value("minOffsetsPerTrigger"),
        max_trigger_delay_ms=value("maxTriggerDelay"),
        min_partitions=value("minPartitions"),
        max_partitions=value("maxPartitions"),
        max_records_per_partition=value("maxRecordsPerPartition"),
        fail_on_data_loss=value("failOnDataLoss"),
        include_headers=value("includeHeaders"),
        offset_retries=value("fetchOffset.numRetries"),
        offset_retry_interval_ms=value("fetchOffset.retryIntervalMs"),
        poll_timeout_ms=value("kafkaConsumer.pollTimeoutMs"),
        max_decompressed_batch_bytes=value("maxDecompressedBatchBytes"),
        group_id=value("kafka.group.id"),
        commit_to_group=value("commitOffsetsToGroup"),
        jvm_checkpoint=value("jvmCheckpoint"),
        invalid_utf8=value("invalidUtf8"),
        filter_pushdown=value("filterPushdown"),
    )


def check_source_options(options: Mapping[str, str]) -> SourceOptions:
    """Check options at ``load()``, when it is not known yet whether the query is a batch or a stream.

    Raises OptionError if the options are invalid for both. The error is that of the query that has these options, or
    has the errors of both.
    """
    try:
        return _parse_source(options, Query.STREAM)
    except OptionError as error:
        of_stream = error
    try:
        return _parse_source(options, Query.BATCH)
    except OptionError as of_batch:
        given = {name.lower() for name in options}
        if str(of_batch) == str(of_stream) or given & _ONLY_IN_STREAMS:
            raise of_stream from None
        if of_batch.option in _ONLY_IN_BATCHES:
            raise
        raise OptionError(of_batch.option, f"{of_batch.message}. With readStream: {of_stream}") from None


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Options of ``write`` or ``writeStream`` -> checked values. Raises OptionError naming the option."""
    given = _split_off_spark(options)
    values = _parse_table(given, SINK_OPTIONS, other_side=SOURCE_OPTIONS)
    client = _client(given, _REFUSED_BY_SINK)
    if "partitioner" in values and client.partitioner_class:
        raise OptionError("partitioner", "contradicts 'kafka.partitioner.class'; give only one of them")
    check_lookup(values)
    value = _value_of(values, SINK_OPTIONS)
    return SinkOptions(
        client=client,
        topic=value("topic"),
        include_timestamp=value("includeTimestamp"),
        partitioner=values.get("partitioner"),  # the default is that of the client properties
        lookup_table=values.get(LOOKUP_TABLE),
        exactly_once=exactly_once(values, client, {name.lower(): text for name, text in options.items()}),
    )


def _split_off_spark(options: Mapping[str, str]) -> dict[str, str]:
    folded = {name.lower(): value for name, value in options.items()}
    return {
        name: value
        for name, value in folded.items()
        if name not in _SPARKS_OWN and not name.startswith(_SPARKS_OWN_PREFIX)
    }


def _parse_table(
    given: Mapping[str, str], table: tuple[Option, ...], *, other_side: tuple[Option, ...]
) -> dict[str, Any]:
    by_name = {option.name.lower(): option for option in table}
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name in by_name:
            values[by_name[name].name] = _parse_one(by_name[name], text)
        elif not name.startswith("kafka."):
            raise _unknown(name, table, other_side)
    return values


def _value_of(values: Mapping[str, Any], table: tuple[Option, ...]) -> Callable[[str], Any]:
    """A function of an option's name: the given value, or the default."""
    options = {option.name: option for option in table}
    return lambda name: values[name] if name in values else options[name].default_value


def _parse_one(option: Option, text: str) -> Any:
    try:
        return option.type.parse(text)
    except ValueError as error:
        raise OptionError(option.name, str(error)) from None


def _unknown(name: str, table: tuple[Option, ...], other_side: tuple[Option, ...]) -> OptionError:
    if name in _OF_DATABRICKS:
        return OptionError(
            name, f"is an option of Databricks' connector, not of Apache Spark's; {_OF_DATABRICKS[name]}"
        )
    side, other = ("source", "sink") if table is SOURCE_OPTIONS else ("sink", "source")
    near = f"kafka.{name}" if name in PROPERTIES else nearest_name(name, [option.name for option in table])
    names = {option.name.lower(): option.name for option in (*table, *other_side)}
    suggestion = f"; did you mean '{near}'?" if near else ""
    if name in names:
        return OptionError(names[name], f"belongs to the {other}, not to the {side}{suggestion}")
    return OptionError(name, f"is not an option of the pykafka {side}{suggestion}")


def _client(given: Mapping[str, str], refused: Mapping[str, str]) -> ClientConfig:
    properties = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    for name, reason in refused.items():
        if name in properties:
            raise OptionError(f"kafka.{name}", reason)
    try:
        return _parsed_once(frozenset(properties.items()))
    except ConfigError as error:
        option, value = f"kafka.{error.option}", properties.get(error.option, "")
        # Spark passes the OPTIONS of a catalog table to a Python source only when the table is created.
        hint = "" if given else "; a table of CREATE TABLE ... USING needs its options in WITH (...) at each use"
        raise OptionError(option, redacted(error.message, option, value) + hint) from None


@functools.lru_cache(maxsize=64)
def _parsed_once(properties: frozenset[tuple[str, str]]) -> ClientConfig:
    """Parsed once per process, because Spark makes new writers for every micro-batch, and parsing may log warnings."""
    return ClientConfig.parse(dict(properties), option_prefix="kafka.")


def _one_subscription(values: Mapping[str, Any]) -> Subscription:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if name in values]
    if not given:
        raise OptionError("subscribe", "is required, or 'subscribePattern' or 'assign' instead")
    if len(given) > 1:
        others = " and ".join(repr(name) for name in given[1:])
        raise OptionError(given[0], f"contradicts {others}; give only one of them")
    subscription: Subscription = values[given[0]]
    return subscription


def _check_query(values: Mapping[str, Any], query: Query) -> None:
    for option in SOURCE_OPTIONS:
        if option.name not in values:
            continue
        if query is Query.STREAM and not option.stream:
            raise OptionError(option.name, "is valid only in a batch query")
        if query is Query.BATCH and not option.batch and not option.ignored_in_batch:
            raise OptionError(option.name, "is valid only in a streaming query")
