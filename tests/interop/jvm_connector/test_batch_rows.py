"""Batch queries through both connectors over topics that are hard to read: the same rows, the same tasks."""

import pytest

from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import Record
from tests.support.features.feature import by_name, showing
from tests.support.spark.connector_cases import BATCHES
from tests.support.spark.connector_differences import differing, meant
from tests.support.spark.hard_topics import HardTopics
from tests.support.spark.jvm_connector import JVM, OURS, BothConnectors
from tests.support.spark.session_functions import read, read_again, sql

pytestmark = [pytest.mark.interop, pytest.mark.spark]

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
PATIENCE = {"kafkaConsumer.pollTimeoutMs": "3000"}


@pytest.mark.parametrize(
    "topic",
    [
        showing("plain", shows=" ".join(f"column.{name}" for name in COLUMNS)),
        showing("codecs", shows="column.value"),
        showing("appended", shows="column.timestamp column.timestampType"),
        showing("transactions", shows="transactions.uncommitted"),
        showing("compacted", shows="loss.gaps"),
        "truncated",
        "empty",
    ],
)
def test_rows_are_the_same_in_every_column(both: BothConnectors, topics: HardTopics, topic: str) -> None:
    options = {"kafka.bootstrap.servers": topics.servers, "subscribe": topic, "includeHeaders": "true", **PATIENCE}
    theirs, ours = both.compare(read, options)
    assert theirs.error is None
    assert theirs.columns == COLUMNS
    assert bool(theirs.rows) == (topic != "empty")
    assert ours == theirs


@pytest.mark.parametrize("case", by_name(BATCHES))
def test_batches_are_the_same(both: BothConnectors, topics: HardTopics, case: str) -> None:
    theirs, ours = both.compare(read, {"kafka.bootstrap.servers": topics.servers, **BATCHES[case].options})
    assert ours.error is None
    assert differing(ours, theirs) == meant(case)


@pytest.mark.feature("offsets.lateBinding")
@pytest.mark.parametrize("options", [{}, showing({"minPartitions": "4"}, shows="split.sentinels")])
def test_a_dataframe_used_again_sees_what_came_in_between(
    both: BothConnectors, topics: HardTopics, options: dict[str, str]
) -> None:
    topic = topics.create_topic(partitions=2)
    client = ConfluentClient()
    client.produce(topics.servers, topic, [Record(b"k", b"1"), Record(b"k", b"2", partition=1)])
    named = {"kafka.bootstrap.servers": topics.servers, "subscribe": topic, **options}
    first = both.compare(read, named, keep=True)
    client.produce(topics.servers, topic, [Record(b"k", b"3"), Record(b"k", b"4", partition=1)])
    second = both.compare(read_again)
    for theirs, ours in (first, second):
        assert ours.rows == theirs.rows
    assert [row[1] for row in second[0].rows] == [b"1", b"3", b"2", b"4"]


@pytest.mark.feature("run.sql", "run.name")
def test_views_and_tables_are_read_the_same(both: BothConnectors, topics: HardTopics) -> None:
    options = f"`kafka.bootstrap.servers` '{topics.servers}', subscribe 'plain'"
    count = "SELECT partition, count(*), max(offset) FROM {0} GROUP BY partition ORDER BY partition"
    view = f"CREATE TEMPORARY VIEW {{connector}}_view USING {{connector}} OPTIONS ({options})"
    table = f"CREATE TABLE {{connector}}_table USING {{connector}} OPTIONS ({options})"
    theirs, ours = both.compare(sql, (view, count.format("{connector}_view")))
    assert ours == theirs == ((0, 40, 39), (1, 7, 6), (2, 1, 0))
    assert both.ask(sql, JVM, (table, count.format("{connector}_table"))) == theirs
    again = f"WITH ('kafka.bootstrap.servers' = '{topics.servers}', 'subscribe' = 'plain')"
    assert both.ask(sql, OURS, (table, count.format(f"{{connector}}_table {again}"))) == theirs
