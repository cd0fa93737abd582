"""Questions for both connectors: options by the name of the case, over the topics of `tests.support.spark.hard_topics`.

`tests.support.spark.connector_differences` names the cases in which the two are meant to differ.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.support.spark.hard_topics import FIRST_MS

Options = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """Options that both connectors take, and the features that the answers show."""

    options: Options
    shows: str


@dataclass(frozen=True)
class Bad:
    """Options that both connectors refuse, what our error names, and the features that this shows."""

    options: Options
    names: str
    shows: str


def offsets(*by_partition: int, topic: str = "plain") -> str:
    """``offsets(5, 6)`` is ``{"plain":{"0":5,"1":6}}``."""
    return json.dumps({topic: {str(partition): offset for partition, offset in enumerate(by_partition)}})


def _ms(record: float) -> str:
    """The time of a record of ``plain``; between two for a fraction."""
    return str(FIRST_MS + int(record * 1000))


def _times(*records: float) -> str:
    """The times of records of partitions 0, 1 and so on."""
    return offsets(*(int(_ms(record)) for record in records))


_PLAIN: Final = {"subscribe": "plain"}
_COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
_ACCEPT_LOSS: Final = {"failOnDataLoss": "false"}
# What the JVM connector waits for records after a range that ends in what it does not show.
_PATIENCE: Final = {"kafkaConsumer.pollTimeoutMs": "3000"}

BATCHES: Final[Mapping[str, Case]] = {
    "several topics": Case({"subscribe": "plain, appended,, empty"}, "source.subscribe split.one"),
    "assign": Case({"assign": '{"plain":[0,2],"appended":[1]}'}, "source.assign"),
    "assign: some do not exist": Case({"assign": '{"plain":[1,9]}'}, "source.assign"),
    "assign: none exist": Case({"assign": '{"plain":[9]}'}, "source.assign"),
    "pattern": Case({"subscribePattern": "(plain|appended)"}, "source.subscribePattern"),
    "pattern: found inside names": Case({"subscribePattern": "lai"}, "source.subscribePattern"),
    "pattern: no topic": Case({"subscribePattern": "no such topic"}, "source.subscribePattern"),
    "names in any case": Case(
        {"SUBSCRIBE": "plain", "StartingOFFSETS": "EarLiest", "endingoffsets": "LATEST"}, "source.options"
    ),
    "offsets": Case(
        {**_PLAIN, "startingOffsets": offsets(5, -2, 1, 0), "endingOffsets": offsets(20, -1, 1, -1)},
        "source.startingOffsets source.endingOffsets offsets.special",
    ),
    "offsets: nothing between": Case(
        {
            **_PLAIN,
            "startingOffsets": offsets(9, 7, 1, 0),
            "endingOffsets": offsets(9, 7, 1, 0),
        },
        "source.startingOffsets source.endingOffsets",
    ),
    "times: start": Case(
        {**_PLAIN, "startingTimestamp": _ms(4.5), "startingOffsetsByTimestampStrategy": "latest"},
        "source.startingTimestamp source.startingOffsetsByTimestampStrategy offsets.byTimestamp",
    ),
    "times: start and end": Case(
        {
            **_PLAIN,
            "startingTimestamp": _ms(0),
            "endingTimestamp": _ms(5),
            "startingOffsetsByTimestampStrategy": "LATEST",
        },
        "source.startingTimestamp source.endingTimestamp",
    ),
    "times: by partition": Case(
        {
            "assign": '{"plain":[0,1]}',
            "startingOffsetsByTimestamp": _times(3, 1.5),
            "endingOffsetsByTimestamp": _times(10, 100),
        },
        "source.startingOffsetsByTimestamp source.endingOffsetsByTimestamp",
    ),
    "times: an end that no record reaches": Case(
        {**_PLAIN, "endingTimestamp": _ms(1000)}, "source.endingTimestamp offsets.byTimestamp"
    ),
    "times go before offsets": Case(
        {
            "assign": '{"plain":[0]}',
            "startingTimestamp": _ms(10),
            "startingOffsetsByTimestamp": _times(20),
            "startingOffsets": offsets(30),
            "endingTimestamp": _ms(15),
            "endingOffsetsByTimestamp": _times(25),
            "endingOffsets": offsets(35),
        },
        "source.startingTimestamp source.endingTimestamp",
    ),
    "times by partition go before offsets": Case(
        {
            "assign": '{"plain":[0]}',
            "startingOffsetsByTimestamp": _times(20),
            "startingOffsets": offsets(30),
            "endingOffsetsByTimestamp": _times(25),
            "endingOffsets": offsets(35),
        },
        "source.startingOffsetsByTimestamp source.endingOffsetsByTimestamp",
    ),
    "offsets, and times for the end": Case(
        {
            "assign": '{"plain":[0]}',
            "startingOffsets": offsets(3),
            "endingTimestamp": _ms(5),
        },
        "source.startingOffsets source.endingTimestamp",
    ),
    "times of the broker": Case(
        {"subscribe": "appended", "startingTimestamp": _ms(0)}, "source.startingTimestamp offsets.byTimestamp"
    ),
    "headers included": Case({**_PLAIN, "includeHeaders": "TRUE"}, "source.includeHeaders"),
    "read_committed": Case(
        {"subscribe": "transactions", **_COMMITTED, **_PATIENCE},
        "source.isolationLevel transactions.committed transactions.aborted transactions.open",
    ),
    "read_committed: ends in what is aborted": Case(
        {
            "subscribe": "transactions",
            "startingOffsets": offsets(16, 0, topic="transactions"),
            "endingOffsets": offsets(22, 2, topic="transactions"),
            **_COMMITTED,
            **_PATIENCE,
        },
        "transactions.aborted",
    ),
    "read_uncommitted": Case(
        {"subscribe": "transactions", "kafka.isolation.level": "read_uncommitted", **_PATIENCE},
        "source.isolationLevel transactions.uncommitted",
    ),
    "compacted: from a gap to a gap": Case(
        {
            "subscribe": "compacted",
            "startingOffsets": offsets(3, 5, topic="compacted"),
            "endingOffsets": offsets(40, 60, topic="compacted"),
            **_PATIENCE,
        },
        "loss.gaps",
    ),
    "truncated: from the first that is left": Case(
        {
            "subscribe": "truncated",
            "startingOffsets": offsets(8, 12, topic="truncated"),
        },
        "source.startingOffsets",
    ),
    "truncated: from before, loss accepted": Case(
        {
            "subscribe": "truncated",
            "startingOffsets": offsets(2, 0, topic="truncated"),
            **_ACCEPT_LOSS,
            **_PATIENCE,
        },
        "loss.agedOut source.failOnDataLoss",
    ),
    "minPartitions: fewer than there are": Case({**_PLAIN, "minPartitions": "2"}, "source.minPartitions"),
    "minPartitions: more": Case({**_PLAIN, "minPartitions": "7"}, "source.minPartitions split.minPartitions"),
    "minPartitions: far more": Case(
        {"assign": '{"plain":[0,1]}', "minPartitions": "15"}, "split.minPartitions run.concurrent"
    ),
    "minPartitions: between offsets": Case(
        {
            **_PLAIN,
            "minPartitions": "6",
            "startingOffsets": offsets(3, 0, 0, 0),
            "endingOffsets": offsets(33, 5, 1, 0),
        },
        "split.minPartitions",
    ),
    "minPartitions: read_committed": Case(
        {"subscribe": "transactions", "minPartitions": "6", **_COMMITTED, **_PATIENCE}, "split.minPartitions"
    ),
    "maxRecordsPerPartition": Case(
        {
            **_PLAIN,
            "maxRecordsPerPartition": "9",
            "startingOffsets": offsets(0, 0, 0, 0),
            "endingOffsets": offsets(40, 7, 1, 0),
        },
        "source.maxRecordsPerPartition split.maxRecords",
    ),
    "maxRecordsPerPartition: with minPartitions": Case(
        {
            **_PLAIN,
            "maxRecordsPerPartition": "20",
            "minPartitions": "5",
            "startingOffsets": offsets(0, 0, 0, 0),
            "endingOffsets": offsets(40, 7, 1, 0),
        },
        "split.maxRecords",
    ),
    "maxRecordsPerPartition: earliest to latest": Case(
        {**_PLAIN, "maxRecordsPerPartition": "9"}, "better.batchMaxRecords"
    ),
    "offsets: of whole topics": Case({**_PLAIN, "startingOffsets": '{"plain":"earliest"}'}, "more.topicOffsets"),
    "stream options in a batch": Case(
        {**_PLAIN, "maxOffsetsPerTrigger": "5", "groupIdPrefix": "mine"}, "source.groupIdPrefix"
    ),
    "a group": Case({**_PLAIN, "kafka.group.id": "mine"}, "source.groupId"),
    "client configs": Case(
        {
            **_PLAIN,
            "kafka.max.poll.records": "3",
            "kafka.fetch.max.bytes": "1000",
            "kafka.client.id": "me",
        },
        "client.passThrough",
    ),
}

BAD_BATCHES: Final[Mapping[str, Bad]] = {
    "no strategy": Bad({}, "subscribe", "source.strategy"),
    "two strategies": Bad({"subscribe": "plain", "assign": '{"plain":[0]}'}, "assign", "source.strategy"),
    "no servers": Bad({"kafka.bootstrap.servers": "", **_PLAIN}, "kafka.bootstrap.servers", "source.bootstrapServers"),
    "assign: not JSON": Bad({"assign": "plain"}, "assign", "source.assign"),
    "assign: broken JSON": Bad({"assign": '{"plain":'}, "assign", "source.assign"),
    "subscribe: nothing": Bad({"subscribe": " , "}, "subscribe", "source.subscribe"),
    "subscribe: no such topic": Bad(
        {"subscribe": "missing", "fetchOffset.numRetries": "1"}, "missing", "source.subscribe"
    ),
    "pattern: nothing": Bad({"subscribePattern": " "}, "subscribePattern", "source.subscribePattern"),
    "pattern: broken": Bad({"subscribePattern": "(plain"}, "subscribePattern", "source.subscribePattern"),
    "startingOffsets: latest": Bad(
        {**_PLAIN, "startingOffsets": "latest"}, "startingOffsets", "source.startingOffsets"
    ),
    "startingOffsets: -1": Bad(
        {"assign": '{"plain":[0]}', "startingOffsets": offsets(-1)}, "startingOffsets", "source.startingOffsets"
    ),
    "startingOffsets: broken JSON": Bad(
        {**_PLAIN, "startingOffsets": '{"plain":'}, "startingOffsets", "source.startingOffsets"
    ),
    "startingOffsets: a partition missing": Bad(
        {**_PLAIN, "startingOffsets": offsets(0)}, "startingOffsets", "offsets.sets"
    ),
    "startingOffsets: one too many": Bad(
        {**_PLAIN, "startingOffsets": offsets(0, 0, 0, 0, 0)}, "startingOffsets", "offsets.sets"
    ),
    "endingOffsets: earliest": Bad({**_PLAIN, "endingOffsets": "earliest"}, "endingOffsets", "source.endingOffsets"),
    "endingOffsets: -2": Bad(
        {"assign": '{"plain":[0]}', "endingOffsets": offsets(-2)}, "endingOffsets", "source.endingOffsets"
    ),
    "endingOffsets: a partition missing": Bad({**_PLAIN, "endingOffsets": offsets(1)}, "endingOffsets", "offsets.sets"),
    "startingTimestamp: no number": Bad(
        {**_PLAIN, "startingTimestamp": "soon"}, "startingTimestamp", "source.startingTimestamp"
    ),
    "startingTimestamp: no record": Bad(
        {**_PLAIN, "startingTimestamp": _ms(1000)}, "plain-", "source.startingOffsetsByTimestampStrategy"
    ),
    "startingOffsetsByTimestamp: broken": Bad(
        {**_PLAIN, "startingOffsetsByTimestamp": "{}}"},
        "startingOffsetsByTimestamp",
        "source.startingOffsetsByTimestamp",
    ),
    "startingOffsetsByTimestamp: a partition missing": Bad(
        {**_PLAIN, "startingOffsetsByTimestamp": _times(1)}, "startingOffsetsByTimestamp", "offsets.sets"
    ),
    "endingTimestamp: no number": Bad(
        {**_PLAIN, "endingTimestamp": "1.5"}, "endingTimestamp", "source.endingTimestamp"
    ),
    "endingOffsetsByTimestamp: a partition missing": Bad(
        {**_PLAIN, "endingOffsetsByTimestamp": _times(1)}, "endingOffsetsByTimestamp", "offsets.sets"
    ),
    "strategy: unknown": Bad(
        {**_PLAIN, "startingOffsetsByTimestampStrategy": "first"},
        "startingOffsetsByTimestampStrategy",
        "source.startingOffsetsByTimestampStrategy",
    ),
    "start after end": Bad(
        {"assign": '{"plain":[0]}', "startingOffsets": offsets(5), "endingOffsets": offsets(4)},
        "plain-0",
        "offsets.order",
    ),
    "start after end: by time": Bad(
        {"assign": '{"plain":[0]}', "startingTimestamp": _ms(5), "endingTimestamp": _ms(4)},
        "endingTimestamp",
        "offsets.order",
    ),
    "start after end: found by look-up": Bad(
        {"assign": '{"plain":[0]}', "startingOffsets": offsets(9), "endingTimestamp": _ms(4)},
        "plain-0",
        "offsets.order",
    ),
    "start after end: after the log": Bad(
        {"assign": '{"plain":[0]}', "startingOffsets": offsets(41)}, "plain-0", "offsets.order"
    ),
    "start and end of other partitions": Bad(
        {**_PLAIN, "startingOffsets": offsets(0, 0, 0, 0), "endingOffsets": offsets(9, 7)},
        "endingOffsets",
        "offsets.sets",
    ),
    "failOnDataLoss: no truth": Bad({**_PLAIN, "failOnDataLoss": "maybe"}, "failOnDataLoss", "source.failOnDataLoss"),
    "includeHeaders: no truth": Bad({**_PLAIN, "includeHeaders": "maybe"}, "includeHeaders", "source.includeHeaders"),
    "minPartitions: 0": Bad({**_PLAIN, "minPartitions": "0"}, "minPartitions", "source.minPartitions"),
    "minPartitions: a": Bad({**_PLAIN, "minPartitions": "a"}, "minPartitions", "source.minPartitions"),
    "minPartitions: 1.0": Bad({**_PLAIN, "minPartitions": "1.0"}, "minPartitions", "source.minPartitions"),
    "maxRecordsPerPartition: -1": Bad(
        {**_PLAIN, "maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition", "source.maxRecordsPerPartition"
    ),
    "numRetries: no number": Bad(
        {**_PLAIN, "fetchOffset.numRetries": "some"}, "fetchOffset.numRetries", "source.numRetries"
    ),
    "pollTimeoutMs: no number": Bad(
        {**_PLAIN, "kafkaConsumer.pollTimeoutMs": "some"}, "kafkaConsumer.pollTimeoutMs", "source.pollTimeoutMs"
    ),
    "isolation.level: unknown": Bad(
        {**_PLAIN, "kafka.isolation.level": "read_all"}, "isolation.level", "source.isolationLevel"
    ),
    "auto.offset.reset": Bad(
        {**_PLAIN, "kafka.auto.offset.reset": "latest"}, "auto.offset.reset", "client.auto.offset.reset"
    ),
    "enable.auto.commit": Bad(
        {**_PLAIN, "kafka.enable.auto.commit": "false"}, "enable.auto.commit", "client.enable.auto.commit"
    ),
    "interceptor.classes": Bad(
        {**_PLAIN, "kafka.interceptor.classes": "A"}, "interceptor.classes", "client.interceptor.classes"
    ),
    "key.deserializer": Bad({**_PLAIN, "kafka.key.deserializer": "A"}, "key.deserializer", "client.deserializers"),
    "value.deserializer": Bad(
        {**_PLAIN, "kafka.value.deserializer": "A"}, "value.deserializer", "client.deserializers"
    ),
    "client config: no number": Bad(
        {**_PLAIN, "kafka.fetch.max.bytes": "many"}, "fetch.max.bytes", "client.passThrough"
    ),
    "client config: unknown": Bad({**_PLAIN, "kafka.fetch.max.byte": "1"}, "fetch.max.bytes", "client.unknown"),
    "option: unknown": Bad({**_PLAIN, "startingOffset": "earliest"}, "startingOffset", "source.options"),
    "truncated: from before": Bad(
        {"subscribe": "truncated", "startingOffsets": offsets(2, 0, topic="truncated"), **_PATIENCE},
        "truncated-",
        "loss.agedOut better.agedOut",
    ),
}

_EARLIEST: Final = {"startingOffsets": "earliest"}

STREAMS: Final[Mapping[str, Case]] = {
    "stream: all": Case(
        {"subscribe": "plain,codecs,appended,empty", "includeHeaders": "true", **_EARLIEST},
        "source.startingOffsets rate.availableNow offsets.json",
    ),
    "stream: latest": Case({**_PLAIN}, "source.startingOffsets"),
    "stream: offsets": Case({**_PLAIN, "startingOffsets": offsets(5, -1, -2, 0)}, "source.startingOffsets"),
    "stream: time": Case(
        {**_PLAIN, "startingTimestamp": _ms(4.5), "startingOffsetsByTimestampStrategy": "latest"},
        "source.startingTimestamp",
    ),
    "stream: pattern and minPartitions": Case(
        {"subscribePattern": "plain|appended", "minPartitions": "9", **_EARLIEST}, "source.minPartitions"
    ),
    "stream: maxRecordsPerPartition": Case(
        {**_PLAIN, "maxRecordsPerPartition": "6", **_EARLIEST}, "source.maxRecordsPerPartition"
    ),
    "stream: maxOffsetsPerTrigger": Case(
        {**_PLAIN, "maxOffsetsPerTrigger": "12", **_EARLIEST}, "source.maxOffsetsPerTrigger rate.proportional"
    ),
    "stream: minOffsetsPerTrigger": Case(
        {**_PLAIN, "minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "20", **_EARLIEST},
        "source.minOffsetsPerTrigger rate.availableNowTail better.noTail",
    ),
    "stream: a limit below the number of partitions": Case(
        {
            "assign": '{"plain":[0,1,2]}',
            "maxOffsetsPerTrigger": "2",
            "startingOffsets": offsets(38, 5, 0),
        },
        "source.maxOffsetsPerTrigger better.exactLimits",
    ),
    "stream: read_committed": Case(
        {"subscribe": "transactions", **_COMMITTED, **_PATIENCE, **_EARLIEST}, "source.isolationLevel transactions.open"
    ),
    "stream: read_uncommitted, compacted": Case(
        {"subscribe": "transactions,compacted", **_PATIENCE, **_EARLIEST}, "transactions.uncommitted loss.gaps"
    ),
    "stream: truncated": Case({"subscribe": "truncated", **_EARLIEST}, "rate.availableNow"),
    "stream: endingTimestamp": Case({**_PLAIN, "endingTimestamp": _ms(5), **_EARLIEST}, "source.endingTimestamp"),
}

BAD_STREAMS: Final[Mapping[str, Bad]] = {
    "stream: endingOffsets": Bad({**_PLAIN, "endingOffsets": "latest"}, "endingOffsets", "source.endingOffsets"),
    "stream: endingOffsetsByTimestamp": Bad(
        {**_PLAIN, "endingOffsetsByTimestamp": _times(1)}, "endingOffsetsByTimestamp", "source.endingOffsetsByTimestamp"
    ),
    "stream: a partition missing": Bad(
        {**_PLAIN, "startingOffsets": offsets(1), "fetchOffset.numRetries": "1"}, "startingOffsets", "offsets.sets"
    ),
    "stream: maxOffsetsPerTrigger: no number": Bad(
        {**_PLAIN, "maxOffsetsPerTrigger": "ten"}, "maxOffsetsPerTrigger", "source.maxOffsetsPerTrigger"
    ),
    "stream: least above most": Bad(
        {**_PLAIN, "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
        "minOffsetsPerTrigger",
        "source.minOffsetsPerTrigger rate.order",
    ),
    "stream: maxTriggerDelay": Bad(
        {**_PLAIN, "minOffsetsPerTrigger": "20", "maxTriggerDelay": "soon"}, "maxTriggerDelay", "source.maxTriggerDelay"
    ),
    "stream: truncated from before": Bad(
        {"subscribe": "truncated", "startingOffsets": offsets(2, 0, topic="truncated"), **_PATIENCE},
        "truncated-",
        "loss.agedOut",
    ),
}
