"""Questions for both connectors: options by the name of the case, over the topics of `tests.support.hard_topics`.

`tests.support.connector_differences` names the cases in which the two are meant to differ.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.support.hard_topics import FIRST_MS

Options = Mapping[str, str]


@dataclass(frozen=True)
class Bad:
    """Options that are refused, and what our refusal names."""

    options: Options
    names: str


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
_GO_ON: Final = {"failOnDataLoss": "false"}
# What the JVM connector waits for records behind a range that ends in what it does not show.
_PATIENCE: Final = {"kafkaConsumer.pollTimeoutMs": "3000"}

BATCHES: Final[Mapping[str, Options]] = {
    "several topics": {"subscribe": "plain, appended,, empty"},
    "assign": {"assign": '{"plain":[0,2],"appended":[1]}'},
    "assign: some do not exist": {"assign": '{"plain":[1,9]}'},
    "assign: none exist": {"assign": '{"plain":[9]}'},
    "pattern": {"subscribePattern": "(plain|appended)"},
    "pattern: found inside names": {"subscribePattern": "lai"},
    "pattern: no topic": {"subscribePattern": "no such topic"},
    "names in any case": {"SUBSCRIBE": "plain", "StartingOFFSETS": "EarLiest", "endingoffsets": "LATEST"},
    "offsets": {**_PLAIN, "startingOffsets": offsets(5, -2, 1, 0), "endingOffsets": offsets(20, -1, 1, -1)},
    "offsets: nothing between": {
        **_PLAIN,
        "startingOffsets": offsets(9, 7, 1, 0),
        "endingOffsets": offsets(9, 7, 1, 0),
    },
    "times: start": {**_PLAIN, "startingTimestamp": _ms(4.5), "startingOffsetsByTimestampStrategy": "latest"},
    "times: start and end": {
        **_PLAIN,
        "startingTimestamp": _ms(0),
        "endingTimestamp": _ms(5),
        "startingOffsetsByTimestampStrategy": "LATEST",
    },
    "times: by partition": {
        "assign": '{"plain":[0,1]}',
        "startingOffsetsByTimestamp": _times(3, 1.5),
        "endingOffsetsByTimestamp": _times(10, 100),
    },
    "times: an end that no record reaches": {**_PLAIN, "endingTimestamp": _ms(1000)},
    "times go before offsets": {
        "assign": '{"plain":[0]}',
        "startingTimestamp": _ms(10),
        "startingOffsetsByTimestamp": _times(20),
        "startingOffsets": offsets(30),
        "endingTimestamp": _ms(15),
        "endingOffsetsByTimestamp": _times(25),
        "endingOffsets": offsets(35),
    },
    "times by partition go before offsets": {
        "assign": '{"plain":[0]}',
        "startingOffsetsByTimestamp": _times(20),
        "startingOffsets": offsets(30),
        "endingOffsetsByTimestamp": _times(25),
        "endingOffsets": offsets(35),
    },
    "offsets, and times for the end": {
        "assign": '{"plain":[0]}',
        "startingOffsets": offsets(3),
        "endingTimestamp": _ms(5),
    },
    "times of the broker": {"subscribe": "appended", "startingTimestamp": _ms(0)},
    "headers asked for": {**_PLAIN, "includeHeaders": "TRUE"},
    "read_committed": {"subscribe": "transactions", **_COMMITTED, **_PATIENCE},
    "read_committed: ends in what is aborted": {
        "subscribe": "transactions",
        "startingOffsets": offsets(16, 0, topic="transactions"),
        "endingOffsets": offsets(22, 2, topic="transactions"),
        **_COMMITTED,
        **_PATIENCE,
    },
    "read_uncommitted": {"subscribe": "transactions", "kafka.isolation.level": "read_uncommitted", **_PATIENCE},
    "compacted: from a gap to a gap": {
        "subscribe": "compacted",
        "startingOffsets": offsets(3, 5, topic="compacted"),
        "endingOffsets": offsets(40, 60, topic="compacted"),
        **_PATIENCE,
    },
    "truncated: from the first that is left": {
        "subscribe": "truncated",
        "startingOffsets": offsets(8, 12, topic="truncated"),
    },
    "truncated: from before, going on": {
        "subscribe": "truncated",
        "startingOffsets": offsets(2, 0, topic="truncated"),
        **_GO_ON,
        **_PATIENCE,
    },
    "minPartitions: fewer than there are": {**_PLAIN, "minPartitions": "2"},
    "minPartitions: more": {**_PLAIN, "minPartitions": "7"},
    "minPartitions: far more": {"assign": '{"plain":[0,1]}', "minPartitions": "15"},
    "minPartitions: between offsets": {
        **_PLAIN,
        "minPartitions": "6",
        "startingOffsets": offsets(3, 0, 0, 0),
        "endingOffsets": offsets(33, 5, 1, 0),
    },
    "minPartitions: read_committed": {"subscribe": "transactions", "minPartitions": "6", **_COMMITTED, **_PATIENCE},
    "maxRecordsPerPartition": {
        **_PLAIN,
        "maxRecordsPerPartition": "9",
        "startingOffsets": offsets(0, 0, 0, 0),
        "endingOffsets": offsets(40, 7, 1, 0),
    },
    "maxRecordsPerPartition: with minPartitions": {
        **_PLAIN,
        "maxRecordsPerPartition": "20",
        "minPartitions": "5",
        "startingOffsets": offsets(0, 0, 0, 0),
        "endingOffsets": offsets(40, 7, 1, 0),
    },
    "maxRecordsPerPartition: earliest to latest": {**_PLAIN, "maxRecordsPerPartition": "9"},
    "offsets: of whole topics": {**_PLAIN, "startingOffsets": '{"plain":"earliest"}'},
    "stream options in a batch": {**_PLAIN, "maxOffsetsPerTrigger": "5", "groupIdPrefix": "mine"},
    "a group": {**_PLAIN, "kafka.group.id": "mine"},
    "client configs": {
        **_PLAIN,
        "kafka.max.poll.records": "3",
        "kafka.fetch.max.bytes": "1000",
        "kafka.client.id": "me",
    },
}

BAD_BATCHES: Final[Mapping[str, Bad]] = {
    "no strategy": Bad({}, "subscribe"),
    "two strategies": Bad({"subscribe": "plain", "assign": '{"plain":[0]}'}, "assign"),
    "no servers": Bad({"kafka.bootstrap.servers": "", **_PLAIN}, "kafka.bootstrap.servers"),
    "assign: not JSON": Bad({"assign": "plain"}, "assign"),
    "assign: broken JSON": Bad({"assign": '{"plain":'}, "assign"),
    "subscribe: nothing": Bad({"subscribe": " , "}, "subscribe"),
    "subscribe: no such topic": Bad({"subscribe": "missing", "fetchOffset.numRetries": "1"}, "missing"),
    "pattern: nothing": Bad({"subscribePattern": " "}, "subscribePattern"),
    "pattern: broken": Bad({"subscribePattern": "(plain"}, "subscribePattern"),
    "startingOffsets: latest": Bad({**_PLAIN, "startingOffsets": "latest"}, "startingOffsets"),
    "startingOffsets: -1": Bad({"assign": '{"plain":[0]}', "startingOffsets": offsets(-1)}, "startingOffsets"),
    "startingOffsets: broken JSON": Bad({**_PLAIN, "startingOffsets": '{"plain":'}, "startingOffsets"),
    "startingOffsets: a partition missing": Bad({**_PLAIN, "startingOffsets": offsets(0)}, "startingOffsets"),
    "startingOffsets: one too many": Bad({**_PLAIN, "startingOffsets": offsets(0, 0, 0, 0, 0)}, "startingOffsets"),
    "endingOffsets: earliest": Bad({**_PLAIN, "endingOffsets": "earliest"}, "endingOffsets"),
    "endingOffsets: -2": Bad({"assign": '{"plain":[0]}', "endingOffsets": offsets(-2)}, "endingOffsets"),
    "endingOffsets: a partition missing": Bad({**_PLAIN, "endingOffsets": offsets(1)}, "endingOffsets"),
    "startingTimestamp: no number": Bad({**_PLAIN, "startingTimestamp": "soon"}, "startingTimestamp"),
    "startingTimestamp: no record": Bad({**_PLAIN, "startingTimestamp": _ms(1000)}, "plain-"),
    "startingOffsetsByTimestamp: broken": Bad(
        {**_PLAIN, "startingOffsetsByTimestamp": "{}}"}, "startingOffsetsByTimestamp"
    ),
    "startingOffsetsByTimestamp: a partition missing": Bad(
        {**_PLAIN, "startingOffsetsByTimestamp": _times(1)}, "startingOffsetsByTimestamp"
    ),
    "endingTimestamp: no number": Bad({**_PLAIN, "endingTimestamp": "1.5"}, "endingTimestamp"),
    "endingOffsetsByTimestamp: a partition missing": Bad(
        {**_PLAIN, "endingOffsetsByTimestamp": _times(1)}, "endingOffsetsByTimestamp"
    ),
    "strategy: unknown": Bad(
        {**_PLAIN, "startingOffsetsByTimestampStrategy": "first"}, "startingOffsetsByTimestampStrategy"
    ),
    "start after end": Bad(
        {"assign": '{"plain":[0]}', "startingOffsets": offsets(5), "endingOffsets": offsets(4)}, "plain-0"
    ),
    "start after end: by time": Bad(
        {"assign": '{"plain":[0]}', "startingTimestamp": _ms(5), "endingTimestamp": _ms(4)}, "endingTimestamp"
    ),
    "start after end: found by look-up": Bad(
        {"assign": '{"plain":[0]}', "startingOffsets": offsets(9), "endingTimestamp": _ms(4)}, "plain-0"
    ),
    "start after end: behind the log": Bad({"assign": '{"plain":[0]}', "startingOffsets": offsets(41)}, "plain-0"),
    "start and end of other partitions": Bad(
        {**_PLAIN, "startingOffsets": offsets(0, 0, 0, 0), "endingOffsets": offsets(9, 7)}, "endingOffsets"
    ),
    "failOnDataLoss: no truth": Bad({**_PLAIN, "failOnDataLoss": "maybe"}, "failOnDataLoss"),
    "includeHeaders: no truth": Bad({**_PLAIN, "includeHeaders": "maybe"}, "includeHeaders"),
    "minPartitions: 0": Bad({**_PLAIN, "minPartitions": "0"}, "minPartitions"),
    "minPartitions: a": Bad({**_PLAIN, "minPartitions": "a"}, "minPartitions"),
    "minPartitions: 1.0": Bad({**_PLAIN, "minPartitions": "1.0"}, "minPartitions"),
    "maxRecordsPerPartition: -1": Bad({**_PLAIN, "maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition"),
    "numRetries: no number": Bad({**_PLAIN, "fetchOffset.numRetries": "some"}, "fetchOffset.numRetries"),
    "pollTimeoutMs: no number": Bad({**_PLAIN, "kafkaConsumer.pollTimeoutMs": "some"}, "kafkaConsumer.pollTimeoutMs"),
    "isolation.level: unknown": Bad({**_PLAIN, "kafka.isolation.level": "read_all"}, "isolation.level"),
    "auto.offset.reset": Bad({**_PLAIN, "kafka.auto.offset.reset": "latest"}, "auto.offset.reset"),
    "enable.auto.commit": Bad({**_PLAIN, "kafka.enable.auto.commit": "false"}, "enable.auto.commit"),
    "interceptor.classes": Bad({**_PLAIN, "kafka.interceptor.classes": "A"}, "interceptor.classes"),
    "key.deserializer": Bad({**_PLAIN, "kafka.key.deserializer": "A"}, "key.deserializer"),
    "value.deserializer": Bad({**_PLAIN, "kafka.value.deserializer": "A"}, "value.deserializer"),
    "client config: no number": Bad({**_PLAIN, "kafka.fetch.max.bytes": "many"}, "fetch.max.bytes"),
    "client config: unknown": Bad({**_PLAIN, "kafka.fetch.max.byte": "1"}, "fetch.max.bytes"),
    "option: unknown": Bad({**_PLAIN, "startingOffset": "earliest"}, "startingOffset"),
    "truncated: from before": Bad(
        {"subscribe": "truncated", "startingOffsets": offsets(2, 0, topic="truncated"), **_PATIENCE}, "truncated-"
    ),
}

_EARLIEST: Final = {"startingOffsets": "earliest"}

STREAMS: Final[Mapping[str, Options]] = {
    "stream: all": {"subscribe": "plain,codecs,appended,empty", "includeHeaders": "true", **_EARLIEST},
    "stream: latest": {**_PLAIN},
    "stream: offsets": {**_PLAIN, "startingOffsets": offsets(5, -1, -2, 0)},
    "stream: time": {**_PLAIN, "startingTimestamp": _ms(4.5), "startingOffsetsByTimestampStrategy": "latest"},
    "stream: pattern and minPartitions": {"subscribePattern": "plain|appended", "minPartitions": "9", **_EARLIEST},
    "stream: maxRecordsPerPartition": {**_PLAIN, "maxRecordsPerPartition": "6", **_EARLIEST},
    "stream: maxOffsetsPerTrigger": {**_PLAIN, "maxOffsetsPerTrigger": "12", **_EARLIEST},
    "stream: minOffsetsPerTrigger": {**_PLAIN, "minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "20", **_EARLIEST},
    "stream: a limit below the number of partitions": {
        "assign": '{"plain":[0,1,2]}',
        "maxOffsetsPerTrigger": "2",
        "startingOffsets": offsets(38, 5, 0),
    },
    "stream: read_committed": {"subscribe": "transactions", **_COMMITTED, **_PATIENCE, **_EARLIEST},
    "stream: read_uncommitted, compacted": {"subscribe": "transactions,compacted", **_PATIENCE, **_EARLIEST},
    "stream: truncated": {"subscribe": "truncated", **_EARLIEST},
    "stream: endingTimestamp": {**_PLAIN, "endingTimestamp": _ms(5), **_EARLIEST},
}

BAD_STREAMS: Final[Mapping[str, Bad]] = {
    "stream: endingOffsets": Bad({**_PLAIN, "endingOffsets": "latest"}, "endingOffsets"),
    "stream: endingOffsetsByTimestamp": Bad(
        {**_PLAIN, "endingOffsetsByTimestamp": _times(1)}, "endingOffsetsByTimestamp"
    ),
    "stream: a partition missing": Bad(
        {**_PLAIN, "startingOffsets": offsets(1), "fetchOffset.numRetries": "1"}, "startingOffsets"
    ),
    "stream: maxOffsetsPerTrigger: no number": Bad({**_PLAIN, "maxOffsetsPerTrigger": "ten"}, "maxOffsetsPerTrigger"),
    "stream: least above most": Bad(
        {**_PLAIN, "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"}, "minOffsetsPerTrigger"
    ),
    "stream: maxTriggerDelay": Bad(
        {**_PLAIN, "minOffsetsPerTrigger": "20", "maxTriggerDelay": "soon"}, "maxTriggerDelay"
    ),
    "stream: truncated from before": Bad(
        {"subscribe": "truncated", "startingOffsets": offsets(2, 0, topic="truncated"), **_PATIENCE}, "truncated-"
    ),
}
