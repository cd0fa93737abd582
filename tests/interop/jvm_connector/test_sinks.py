"""The same rows written through both connectors: read by a third client, they are the same, in the same partitions."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import Stored
from tests.support.features.feature import by_name, showing
from tests.support.spark.connector_differences import meant
from tests.support.spark.hard_topics import PLAIN_RECORDS, HardTopics
from tests.support.spark.jvm_connector import JVM, OURS, BothConnectors
from tests.support.spark.session_functions import Write, copy, write
from tests.support.spark.sink_cases import REFUSED, WRITTEN, Rows

pytestmark = [pytest.mark.interop, pytest.mark.spark]

PARTITIONS = 4

Content = dict[int, list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]]


def writes(topics: HardTopics, rows: Rows) -> tuple[dict[str, Write], dict[str, str]]:
    """What each connector is to write, and the topic that each has for it."""
    targets = {connector: topics.create_topic(PARTITIONS) for connector in (JVM, OURS)}
    wanted = {}
    for connector, topic in targets.items():
        options = {"topic": topic} if rows.option_topic else {}
        query = rows.query.replace("{topic}", topic)
        wanted[connector] = Write(query, {"kafka.bootstrap.servers": topics.servers, **options, **rows.options})
    return wanted, targets


def stored(topics: HardTopics, topic: str) -> list[Stored]:
    client = ConfluentClient()
    ends = {partition: client.watermarks(topics.servers, topic, partition)[1] for partition in range(PARTITIONS)}
    return client.consume(topics.servers, topic, ends)


def content(records: list[Stored]) -> Content:
    """Keys, values and headers by partition, in order."""
    found: Content = {}
    for record in records:
        found.setdefault(record.partition, []).append((record.key, record.value, record.headers))
    return found


@pytest.mark.parametrize("case", by_name(WRITTEN))
def test_what_is_written_is_the_same(both: BothConnectors, topics: HardTopics, case: str) -> None:
    wanted, targets = writes(topics, WRITTEN[case])
    assert both.compare(write, wanted) == (None, None)
    theirs, ours = (stored(topics, targets[connector]) for connector in (JVM, OURS))
    assert theirs
    if any(record.key is None for record in theirs) and "partition" not in WRITTEN[case].query:
        # Rows without key go where each partitioner likes.
        assert Counter(record[3:] for record in ours) == Counter(record[3:] for record in theirs)
    else:
        assert content(ours) == content(theirs)


@pytest.mark.parametrize("case", by_name(REFUSED))
def test_what_one_refuses_the_other_refuses(both: BothConnectors, topics: HardTopics, case: str) -> None:
    refused = REFUSED[case]
    wanted, _ = writes(topics, refused.rows)
    theirs, ours = both.compare(write, wanted, mode=refused.rows.mode)
    assert ours is not None
    assert refused.names.lower() in ours.lower()
    assert (theirs is None) == bool(meant(case))


@pytest.mark.feature("sink.append", "sink.headers", "sink.partition")
def test_a_stream_copies_the_same(both: BothConnectors, topics: HardTopics, tmp_path: Path) -> None:
    source = {"subscribe": "plain", "startingOffsets": "earliest", "includeHeaders": "true"}
    rows = Rows("SELECT key, value, headers, partition FROM records")
    wanted, targets = writes(topics, rows)
    options = {"kafka.bootstrap.servers": topics.servers, **source}
    assert both.compare(copy, options, wanted, tmp_path) == (None, None)
    theirs, ours = (content(stored(topics, targets[connector])) for connector in (JVM, OURS))
    assert {partition: len(theirs.get(partition, ())) for partition in range(PARTITIONS)} == PLAIN_RECORDS
    assert ours == theirs


@pytest.mark.parametrize("mode", [showing("complete", shows="sink.complete"), showing("update", shows="sink.update")])
def test_counts_are_written_the_same(both: BothConnectors, topics: HardTopics, mode: str, tmp_path: Path) -> None:
    rows = Rows("SELECT string(partition) AS key, string(count(*)) AS value FROM records GROUP BY partition")
    wanted, targets = writes(topics, rows)
    options = {"kafka.bootstrap.servers": topics.servers, "subscribe": "plain", "startingOffsets": "earliest"}
    theirs, ours = both.compare(copy, options, wanted, tmp_path, mode=mode)
    assert theirs is None
    assert (ours is not None) == bool(meant(f"sink: {mode}"))
    if ours is None:
        counts = [Counter(record[3:] for record in stored(topics, targets[each])) for each in (JVM, OURS)]
        assert counts[0] == counts[1]
        assert len(counts[0]) == sum(count > 0 for count in PLAIN_RECORDS.values())
