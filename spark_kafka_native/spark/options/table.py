"""The options of the ``pykafka`` source and sink, one table each: name, default, legal values, meaning.

Parsing (``parsing.py``) and the documentation are both made from these tables, so they cannot drift apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from spark_kafka_native.client.config_def import INT32_MAX
from spark_kafka_native.client.producer.partitioners import NAMES as PARTITIONERS
from spark_kafka_native.client.producer.partitioners import check_partitioner
from spark_kafka_native.records.decompression import MAX_DECOMPRESSED_BYTES
from spark_kafka_native.spark.offsets import parse_offset_limit, parse_position, parse_timestamps, parse_word
from spark_kafka_native.spark.options.values import (
    assign,
    boolean,
    duration_ms,
    id_prefix,
    integer,
    no_match,
    not_empty,
    one_of,
    point_in_time,
    starting_offsets,
    subscribe,
    subscribe_pattern,
    topic,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option; its name may be written in any case."""

    name: str
    default: str
    """As documented; empty: none."""
    legal: str
    """The values it takes, in words."""
    doc: str
    parse: Callable[[str], Any]
    """From the text to the value. Raises ValueError saying what is wrong."""
    batch: bool = True
    stream: bool = True
    ignored_in_batch: bool = False
    """Whether a batch query that cannot use it runs all the same, with a warning, as in Spark's JVM connector."""


_SERVERS: Final = Option(
    name="kafka.bootstrap.servers",
    default="",
    legal="host:port[,host:port...]",
    doc="Servers asked for the cluster's members; required. Any other `kafka.` option is a Kafka client property.",
    parse=str,
)
_OFFSETS: Final = 'JSON such as `{"topicA":{"0":23,"1":-1},"topicB":"earliest"}` (-2 earliest, -1 latest)'
_WORDS: Final = "earliest, latest, latest-N (N offsets before the end)"
_TIME: Final = "epoch ms, ISO 8601 with a zone such as 2026-11-20T10:00:00Z, or -10m: so long before now"
_TIMESTAMPS: Final = 'JSON such as `{"topicA":{"0":1700000000000}}`'

SOURCE_OPTIONS: Final[tuple[Option, ...]] = (
    _SERVERS,
    Option(
        name="subscribe",
        default="",
        legal="topic[,topic...]",
        doc="Topics to read, partitions added later included. Exactly one of subscribe, subscribePattern, assign.",
        parse=subscribe,
    ),
    Option(
        name="subscribePattern",
        default="",
        legal="a regular expression",
        doc="Read every topic in whose name the expression is found; anchor it with ^ and $ to match whole names.",
        parse=subscribe_pattern,
    ),
    Option(
        name="assign",
        default="",
        legal='JSON such as `{"topicA":[0,1]}`',
        doc="Read these partitions only.",
        parse=assign,
    ),
    Option(
        name="startingOffsets",
        default="latest (stream), earliest (batch)",
        legal=f"{_WORDS}, committed or {_OFFSETS}",
        doc="Where a new query starts; a restarted one goes on from its checkpoint. JSON names every partition, unless "
        "startingOffsetsDefault is given. A batch cannot start at latest. Partitions found later start at earliest. "
        "committed: where the consumer group kafka.group.id has got to.",
        parse=starting_offsets,
    ),
    Option(
        name="startingOffsetsByTimestamp",
        default="",
        legal=_TIMESTAMPS,
        doc="Start each partition at its first record of this time (epoch ms) or later. Goes before startingOffsets.",
        parse=parse_timestamps,
    ),
    Option(
        name="startingTimestamp",
        default="",
        legal=_TIME,
        doc="The same time for all partitions. Goes before startingOffsetsByTimestamp.",
        parse=point_in_time,
    ),
    Option(
        name="startingOffsetsByTimestampStrategy",
        default="error",
        legal="error, latest",
        doc="What to do where no record is as late as a starting timestamp: fail, or start at the end.",
        parse=no_match,
    ),
    Option(
        name="startingOffsetsDefault",
        default="",
        legal=_WORDS,
        doc="Where partitions start that the JSON of startingOffsets or startingOffsetsByTimestamp does not name.",
        parse=parse_position,
    ),
    Option(
        name="startingOffsetsWithoutCommit",
        default="latest (stream), earliest (batch)",
        legal=_WORDS,
        doc="Where partitions start of which the group has committed nothing; with startingOffsets=committed.",
        parse=parse_word,
    ),
    Option(
        name="endingOffsets",
        default="latest",
        legal=f"{_WORDS} or {_OFFSETS}",
        doc="Where a batch query ends, but not at earliest; latest is looked up as bindOffsets says.",
        parse=parse_offset_limit,
        stream=False,
    ),
    Option(
        name="endingOffsetsByTimestamp",
        default="",
        legal=_TIMESTAMPS,
        doc="End each partition before its first record of this time (epoch ms) or later. Goes before endingOffsets.",
        parse=parse_timestamps,
        stream=False,
    ),
    Option(
        name="endingTimestamp",
        default="",
        legal=_TIME,
        doc="The same time for all partitions. Goes before endingOffsetsByTimestamp.",
        parse=point_in_time,
        stream=False,
    ),
    Option(
        name="endingOffsetsDefault",
        default="",
        legal=_WORDS,
        doc="Where partitions end that the JSON of endingOffsets or endingOffsetsByTimestamp does not name.",
        parse=parse_position,
        stream=False,
    ),
    Option(
        name="bindOffsets",
        default="task",
        legal="task, load",
        doc="When a batch looks up earliest and latest; use load where rows are shuffled, cached or joined with "
        "themselves. task: in every attempt of a task, as the JVM connector does; a task that Spark runs again, having "
        "lost an executor, reads more than at first, and a shuffle can then lose and double rows. If a "
        "topic is deleted and created again while they run, some tasks can read the old topic and others the new one, "
        "as with the JVM connector. "
        "load: once for a DataFrame, at load(), or at its first use if a schema is given, so that every action and "
        "attempt reads the same rows; records that are deleted before they are read are a loss (failOnDataLoss). "
        "A Spark Connect server looks them up when it analyses a plan, and again when the plan has left its cache "
        "(spark.connect.session.planCache.maxSize), so a later action can read other rows, and with that cache off the "
        "two sides of a self-join or union can differ. Through Spark Connect give startingOffsets and endingOffsets as "
        "JSON of offsets, or use checkpoint().",
        parse=one_of("task", "load"),
        stream=False,
    ),
    Option(
        name="maxOffsetsPerTrigger",
        default="",
        legal="an integer, at least 1",
        doc="Most offsets one micro-batch reads, shared out in proportion to what waits in each partition.",
        parse=integer(1),
        batch=False,
        ignored_in_batch=True,
    ),
    Option(
        name="minOffsetsPerTrigger",
        default="",
        legal="an integer, at least 1, at most maxOffsetsPerTrigger",
        doc="A micro-batch waits until so many offsets can be read, but no longer than maxTriggerDelay.",
        parse=integer(1),
        batch=False,
        ignored_in_batch=True,
    ),
    Option(
        name="maxTriggerDelay",
        default="15m",
        legal="a duration such as 100ms, 5s, 15m, 1h, 2 days",
        doc="Longest wait for minOffsetsPerTrigger.",
        parse=duration_ms,
        batch=False,
        ignored_in_batch=True,
    ),
    Option(
        name="minPartitions",
        default="",
        legal="an integer, at least 1",
        doc="Tasks to aim at: with fewer partitions than that, large ones are read by several tasks.",
        parse=integer(1, INT32_MAX),
    ),
    Option(
        name="maxPartitions",
        default="",
        legal="an integer, at least 1 and at least minPartitions",
        doc="Tasks to aim at from above: with more partitions than that, several are read by one task, with one Fetch "
        "for all that a broker leads. maxRecordsPerPartition may make more tasks.",
        parse=integer(1, INT32_MAX),
    ),
    Option(
        name="maxRecordsPerPartition",
        default="",
        legal="an integer, at least 1",
        doc="Most offsets one task reads.",
        parse=integer(1),
    ),
    Option(
        name="failOnDataLoss",
        default="true",
        legal="true, false",
        doc="Whether a query stops when records that it was going to read are gone (deleted by retention, or with "
        "their topic), or reads on with a warning.",
        parse=boolean,
    ),
    Option(
        name="includeHeaders",
        default="false",
        legal="true, false",
        doc="Whether rows have the column headers.",
        parse=boolean,
    ),
    Option(
        name="fetchOffset.numRetries",
        default="3",
        legal="an integer, at least 0",
        doc="How often partitions that are missing, or that end before the place the query has reached, are looked up "
        "again before that is believed.",
        parse=integer(0, INT32_MAX),
    ),
    Option(
        name="fetchOffset.retryIntervalMs",
        default="1000",
        legal="an integer, at least 0",
        doc="Pause before such a look-up.",
        parse=integer(0, INT32_MAX),
    ),
    Option(
        name="kafkaConsumer.pollTimeoutMs",
        default="",
        legal="an integer, at least 1",
        doc="Longest wait of a task for records that should be there; without it kafka.default.api.timeout.ms.",
        parse=integer(1),
    ),
    Option(
        name="maxDecompressedBatchBytes",
        default=str(MAX_DECOMPRESSED_BYTES),
        legal=f"an integer, 1 to {INT32_MAX}",
        doc="Most bytes that one record batch may decompress to. A larger one ends the query with an error that names "
        "its partition and offset. Rows of a batch, headers included, take several times its decompressed size.",
        parse=integer(1, INT32_MAX),
    ),
    Option(
        name="kafka.group.id",
        default="",
        legal="a consumer group",
        doc="The group of commitOffsetsToGroup and of startingOffsets=committed; reading does not join it.",
        parse=not_empty,
    ),
    Option(
        name="commitOffsetsToGroup",
        default="false",
        legal="true, false",
        doc="Whether a stream commits what it has finished to kafka.group.id, for tools that show lag. A second group, "
        "named after it with .pykafka-topics, keeps the ids of its topics: by them a topic is recognised that was "
        "deleted and created again while the query was down.",
        parse=boolean,
        batch=False,
    ),
    Option(
        name="groupIdPrefix",
        default="",
        legal="any text",
        doc="Accepted and without effect: reading joins no group, so none is named.",
        parse=str,
    ),
    Option(
        name="jvmCheckpoint",
        default="",
        legal="a local path, or a URI of file, s3, gs, abfs, hdfs",
        doc="Checkpoint directory that Spark's JVM connector wrote and this query goes on from, if its first batch was "
        "not finished; or, of several sources, the directory of the one meant.",
        parse=not_empty,
        batch=False,
    ),
    Option(
        name="invalidUtf8",
        default="replace",
        legal="replace, null, fail, keep",
        doc="What a string column of a schema of one's own makes of bytes that are not UTF-8.",
        parse=one_of("replace", "null", "fail", "keep"),
    ),
    Option(
        name="filterPushdown",
        default="false",
        legal="true, false",
        doc="Whether filters on topic, partition, offset and a least timestamp narrow what is read; needs "
        "`spark.sql.python.filterPushdown.enabled` too. Load a DataFrame of its own for it: Spark uses the plan of the "
        "last filtered scan for all that the same DataFrame is used for, without filters too.",
        parse=boolean,
        stream=False,
    ),
)

SINK_OPTIONS: Final[tuple[Option, ...]] = (
    _SERVERS,
    Option(
        name="topic",
        default="",
        legal="a topic name",
        doc="Topic of every row; without it, rows name theirs in the column topic.",
        parse=topic,
    ),
    Option(
        name="includeHeaders",
        default="",
        legal="true, false",
        doc="Accepted and without effect: a column headers is always written.",
        parse=boolean,
    ),
    Option(
        name="includeTimestamp",
        default="false",
        legal="true, false",
        doc="Whether a column timestamp is the records' time. Otherwise, as with the JVM connector, such a column is "
        "ignored and records have the time at which they are written.",
        parse=boolean,
    ),
    Option(
        name="partitioner",
        default="default",
        legal=f"{', '.join(PARTITIONERS)} or module:function",
        doc="Where rows go whose column partition is null or missing. The names are librdkafka's; default is Java's, "
        "and so are sticky and round_robin. A function takes the keys (pyarrow.BinaryArray) and the number of "
        "partitions, and returns a partition for each key.",
        parse=check_partitioner,
    ),
    Option(
        name="delivery.guarantee",
        default="at-least-once",
        legal="at-least-once, exactly-once",
        doc="exactly-once: a batch is written in transactions that are committed together, and never written twice. "
        "Consumers have to read with isolation.level=read_committed, and see a batch once all of it is there; see "
        "docs/exactly-once.md.",
        parse=one_of("at-least-once", "exactly-once"),
    ),
    Option(
        name="transactional.id.prefix",
        default="",
        legal="1 to 239 letters, digits, dots, underscores and hyphens",
        doc="Required with exactly-once, and only then: what the names of all transactions begin with, and that of the "
        "topic `<prefix>.decisions`. No two queries may share it, and a query keeps it for life.",
        parse=id_prefix,
    ),
    Option(
        name="kafka.transaction.timeout.ms",
        default="900000 (with exactly-once)",
        legal="an integer, at least 30000",
        doc="With exactly-once: the longest time from a task's first row to the commit of its batch, and a restart in "
        "between; brokers abort what is open for longer. At most their transaction.max.timeout.ms.",
        parse=integer(1, INT32_MAX),
    ),
    Option(
        name="transaction.recovery.time.ms",
        default="300000, or a third of the timeout if that is less",
        legal="an integer, at least 1, less than kafka.transaction.timeout.ms by 20000",
        doc="With exactly-once: how long a restart may take. A batch is committed only while each of its transactions "
        "has so much time left; else it is aborted and runs again.",
        parse=integer(1, INT32_MAX),
    ),
)
