"""The options of the ``pykafka`` source and sink, one table each: name, default, legal values, meaning.

Parsing (``parsing.py``) and docs/options.md use these tables.
"""

from dataclasses import dataclass
from typing import Any, Final

from spark_kafka_native._client.config_def import INT64_MAX, ValueType, boolean, choice, integer, text
from spark_kafka_native._client.partitioning.partitioner_names import LOOKUP, TableLocation, check_partitioner
from spark_kafka_native._client.partitioning.partitioner_names import NAMES as PARTITIONERS
from spark_kafka_native._records.decompression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native._spark.offsets import parse_offset_limit, parse_position, parse_timestamps, parse_word
from spark_kafka_native._spark.options.companions import LOOKUP_TABLE
from spark_kafka_native._spark.options.exactly_once import (
    DEFAULT_RECOVERY_MS,
    DEFAULT_TIMEOUT_MS,
    MIN_REST_MS,
    MIN_TIMEOUT_MS,
)
from spark_kafka_native._spark.options.values import (
    assign,
    duration_ms,
    id_prefix,
    no_match,
    point_in_time,
    starting_offsets,
    subscribe,
    subscribe_pattern,
    topic,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option; its name is case-insensitive."""

    name: str
    type: ValueType
    doc: str
    default: str = ""
    """As documented; empty: none. See ``default_value``."""
    batch: bool = True
    stream: bool = True
    ignored_in_batch: bool = False
    """Whether a batch query ignores the option with a warning, as Spark's JVM connector does."""

    @property
    def default_value(self) -> Any:
        """The value of ``default``; None if there is none. Raises ValueError: the default depends on the query."""
        return self.type.parse(self.default) if self.default else None


_SERVERS: Final = Option(
    name="kafka.bootstrap.servers",
    type=ValueType("host:port[,host:port...]", str),
    doc="Brokers for the first connection; required. Any other `kafka.` option is a Kafka client property.",
)
_OFFSETS: Final = 'JSON such as `{"topicA":{"0":23,"1":-1},"topicB":"earliest"}` (-2 earliest, -1 latest)'
_WORDS: Final = "earliest, latest, latest-N (N offsets before the end)"
_TIME: Final = "epoch ms, ISO 8601 with a zone such as 2026-11-20T10:00:00Z, or -10m: ten minutes before now"
_TIMESTAMPS: Final = 'JSON such as `{"topicA":{"0":1700000000000}}`'

SOURCE_OPTIONS: Final[tuple[Option, ...]] = (
    _SERVERS,
    Option(
        name="subscribe",
        type=ValueType("topic[,topic...]", subscribe),
        doc="Topics to read, partitions added later included. Exactly one of subscribe, subscribePattern, assign.",
    ),
    Option(
        name="subscribePattern",
        type=ValueType("a regular expression", subscribe_pattern),
        doc="Read every topic in whose name the expression is found; anchor it with ^ and $ to match whole names.",
    ),
    Option(
        name="assign",
        type=ValueType('JSON such as `{"topicA":[0,1]}`', assign),
        doc="Read these partitions only.",
    ),
    Option(
        name="startingOffsets",
        default="latest (stream), earliest (batch)",
        type=ValueType(f"{_WORDS}, committed or {_OFFSETS}", starting_offsets),
        doc="Where a new query starts; a restarted query continues from its checkpoint. JSON names every partition, "
        "unless startingOffsetsDefault is given. A batch cannot start at latest. Partitions found later start at "
        "earliest. committed: at the committed offsets of the consumer group kafka.group.id.",
    ),
    Option(
        name="startingOffsetsByTimestamp",
        type=ValueType(_TIMESTAMPS, parse_timestamps),
        doc="Start each partition at its first record of this time (epoch ms) or later. Overrides startingOffsets.",
    ),
    Option(
        name="startingTimestamp",
        type=ValueType(_TIME, point_in_time),
        doc="The same time for all partitions. Overrides startingOffsetsByTimestamp.",
    ),
    Option(
        name="startingOffsetsByTimestampStrategy",
        default="error",
        type=ValueType("error, latest", no_match),
        doc="What to do if all records are earlier than a starting timestamp: fail, or start at the end.",
    ),
    Option(
        name="startingOffsetsDefault",
        type=ValueType(_WORDS, parse_position),
        doc="Start of partitions that the JSON of startingOffsets or startingOffsetsByTimestamp does not name.",
    ),
    Option(
        name="startingOffsetsWithoutCommit",
        default="latest (stream), earliest (batch)",
        type=ValueType(_WORDS, parse_word),
        doc="Start of partitions for which the group has no committed offset; with startingOffsets=committed.",
    ),
    Option(
        name="endingOffsets",
        default="latest",
        type=ValueType(f"{_WORDS} or {_OFFSETS}", parse_offset_limit),
        doc="Where a batch query ends; earliest is an error. bindOffsets determines when latest is looked up.",
        stream=False,
    ),
    Option(
        name="endingOffsetsByTimestamp",
        type=ValueType(_TIMESTAMPS, parse_timestamps),
        doc="End each partition before its first record of this time (epoch ms) or later. Overrides endingOffsets.",
        stream=False,
    ),
    Option(
        name="endingTimestamp",
        type=ValueType(_TIME, point_in_time),
        doc="The same time for all partitions. Overrides endingOffsetsByTimestamp.",
        stream=False,
    ),
    Option(
        name="endingOffsetsDefault",
        type=ValueType(_WORDS, parse_position),
        doc="End of partitions that the JSON of endingOffsets or endingOffsetsByTimestamp does not name.",
        stream=False,
    ),
    Option(
        name="bindOffsets",
        default="task",
        type=choice(("task", "load")),
        doc="When a batch looks up earliest and latest; use load if rows are shuffled, cached or joined with "
        "themselves. task: in every attempt of a task, as the JVM connector does; a task that Spark runs again, after "
        "the loss of an executor, can read more than at first, and a shuffle can then lose and duplicate rows. If a "
        "topic is deleted and created again while they run, some tasks can read the old topic and others the new one, "
        "as with the JVM connector. "
        "load: once for a DataFrame, at load(), or at its first use if a schema is given, so that every action and "
        "attempt reads the same rows; records that are deleted before they are read are a loss (failOnDataLoss). "
        "A Spark Connect server looks them up when it analyses a plan, and again when the plan has left its cache "
        "(spark.connect.session.planCache.maxSize), so a later action can read other rows, and with that cache off the "
        "two sides of a self-join or union can differ. Through Spark Connect give startingOffsets and endingOffsets as "
        "JSON of offsets, or use checkpoint().",
        stream=False,
    ),
    Option(
        name="maxOffsetsPerTrigger",
        type=integer(at_least=1, at_most=INT64_MAX),
        doc="Most offsets that one micro-batch reads, distributed in proportion to the lag of each partition.",
        batch=False,
        ignored_in_batch=True,
    ),
    Option(
        name="minOffsetsPerTrigger",
        type=integer(at_least=1, at_most=INT64_MAX),
        doc="A micro-batch waits until this many offsets can be read, but no longer than maxTriggerDelay. At most "
        "maxOffsetsPerTrigger.",
        batch=False,
        ignored_in_batch=True,
    ),
    Option(
        name="maxTriggerDelay",
        default="15m",
        type=ValueType("a duration such as 100ms, 5s, 15m, 1h, 2 days", duration_ms),
        doc="Longest wait for minOffsetsPerTrigger.",
        batch=False,
        ignored_in_batch=True,
    ),
    Option(
        name="minPartitions",
        type=integer(at_least=1),
        doc="Desired number of tasks: with fewer partitions than that, several tasks read a large one.",
    ),
    Option(
        name="maxPartitions",
        type=integer(at_least=1),
        doc="Desired limit of tasks: with more partitions than that, one task reads several, with one Fetch for all "
        "partitions of a leader. At least minPartitions. maxRecordsPerPartition may make more tasks.",
    ),
    Option(
        name="maxRecordsPerPartition",
        type=integer(at_least=1, at_most=INT64_MAX),
        doc="Most offsets that one task reads.",
    ),
    Option(
        name="failOnDataLoss",
        default="true",
        type=boolean(),
        doc="Whether a query stops if records that it has not read yet were deleted (by retention, or with their "
        "topic), or continues with a warning.",
    ),
    Option(
        name="includeHeaders",
        default="false",
        type=boolean(),
        doc="Whether rows have the column headers.",
    ),
    Option(
        name="fetchOffset.numRetries",
        default="3",
        type=integer(),
        doc="How often the source looks up partitions again that are missing, or that end before the query's offset, "
        "before it reports a loss.",
    ),
    Option(
        name="fetchOffset.retryIntervalMs",
        default="1000",
        type=integer(),
        doc="Pause before such a lookup.",
    ),
    Option(
        name="kafkaConsumer.pollTimeoutMs",
        type=integer(at_least=1, at_most=INT64_MAX),
        doc="Longest wait of a task for records; without it kafka.default.api.timeout.ms.",
    ),
    Option(
        name="maxDecompressedBatchBytes",
        default=str(MAX_DECOMPRESSED_BYTES),
        type=integer(at_least=1),
        doc="Most bytes of one decompressed record batch. A larger one ends the query with an error that names its "
        "partition and offset. Rows of a batch, including headers, take several times its decompressed size.",
    ),
    Option(
        name="kafka.group.id",
        type=text("a consumer group", may_be_empty=False),
        doc="The group of commitOffsetsToGroup and of startingOffsets=committed. The source does not join it.",
    ),
    Option(
        name="commitOffsetsToGroup",
        default="false",
        type=boolean(),
        doc="Whether a stream commits the offsets of finished micro-batches to kafka.group.id, for tools that show "
        "lag. A second group with the suffix .pykafka-topics stores the ids of its topics. With them a restarted query "
        "finds a topic that was deleted and created again meanwhile.",
        batch=False,
    ),
    Option(
        name="groupIdPrefix",
        type=text("any text"),
        doc="Accepted and without effect, because the source joins no group.",
    ),
    Option(
        name="jvmCheckpoint",
        type=text("a local path, or a URI of file, s3, gs, abfs, hdfs", may_be_empty=False),
        doc="Checkpoint directory of Spark's JVM connector from which this query continues, if its first batch was "
        "not finished; with several sources the directory of one source.",
        batch=False,
    ),
    Option(
        name="invalidUtf8",
        default="replace",
        type=choice(("replace", "null", "fail", "keep")),
        doc="How a string column of a user schema handles bytes that are not UTF-8.",
    ),
    Option(
        name="filterPushdown",
        default="false",
        type=boolean(),
        doc="Whether filters on topic, partition, offset and a least timestamp narrow the offsets that are read; also "
        "needs `spark.sql.python.filterPushdown.enabled`. Load a separate DataFrame for it: Spark uses the plan of the "
        "last filtered scan for all uses of the same DataFrame, also for those without filters.",
        stream=False,
    ),
)

SINK_OPTIONS: Final[tuple[Option, ...]] = (
    _SERVERS,
    Option(
        name="topic",
        type=ValueType("a topic name", topic),
        doc="Topic of every row; without it the column topic names the topic of each row.",
    ),
    Option(
        name="includeHeaders",
        type=boolean(),
        doc="Accepted and without effect: a column headers is always written.",
    ),
    Option(
        name="includeTimestamp",
        default="false",
        type=boolean(),
        doc="Whether the column timestamp is the records' timestamp. Otherwise, as with the JVM connector, such a "
        "column is ignored and records have the time at which they are written.",
    ),
    Option(
        name="partitioner",
        default="default",
        type=ValueType(f"{', '.join((*PARTITIONERS, LOOKUP))} or module:function", check_partitioner),
        doc="Chooses the partition of rows whose column partition is null or missing. The names are librdkafka's; "
        "default, sticky and round_robin are those of the Java client, string_hash and bytes_hash those of the Scala "
        "client of Kafka 0.8.2 for string and binary keys, string_hash also that of 0.7. Producers of 0.8.0 and 0.8.1 "
        "send keys with a negative hash code to other partitions. lookup uses the tables of lookupTable. A function "
        "takes the keys (pyarrow.BinaryArray) and the number of partitions, and returns a partition for each key.",
    ),
    Option(
        name=LOOKUP_TABLE,
        type=ValueType("topic:NAME or file:/PATH", TableLocation.parse),
        doc="Required with partitioner=lookup, and only then: where the look-up tables are, a compacted topic of the "
        "same cluster or a file on the driver's machine. A table gives keys their partitions, and moves only a share "
        "of them to partitions that are added. It is read once for each batch or micro-batch, so that all tasks use "
        "the same version. `pykafka lookup-table` creates and reorganizes tables; see docs/tools.md.",
    ),
    Option(
        name="delivery.guarantee",
        default="at-least-once",
        type=choice(("at-least-once", "exactly-once")),
        doc="exactly-once: a batch is written in transactions that are committed together, and never written twice. "
        "Consumers have to read with isolation.level=read_committed, and see a batch once it is committed; see "
        "docs/exactly-once.md.",
    ),
    Option(
        name="transactional.id.prefix",
        type=ValueType("1 to 239 letters, digits, dots, underscores and hyphens", id_prefix),
        doc="Required with exactly-once, and only then: the prefix of all transactional ids, and of the topic "
        "`<prefix>.decisions`. Two queries must not use the same prefix, and a query must not change it.",
    ),
    Option(
        name="kafka.transaction.timeout.ms",
        default=f"{DEFAULT_TIMEOUT_MS} (with exactly-once)",
        type=ValueType(f"at least {MIN_TIMEOUT_MS}", integer(at_least=1).parse),
        doc="With exactly-once: the longest time from a task's first row to the commit of its batch, including a "
        "restart; brokers abort transactions that are open for longer. At most their transaction.max.timeout.ms.",
    ),
    Option(
        name="transaction.recovery.time.ms",
        default=f"{DEFAULT_RECOVERY_MS}, or a third of kafka.transaction.timeout.ms if that is less",
        type=ValueType(
            f"at least 1, less than kafka.transaction.timeout.ms by {MIN_REST_MS}", integer(at_least=1).parse
        ),
        doc="With exactly-once: the longest time of a restart. A batch is committed only if each of its transactions "
        "has at least this time left; otherwise it is aborted and runs again.",
    ),
)
