import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.configs import Resource, ResourceType, describe_configs
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.errors import FewerPartitionsThanTable
from spark_kafka_native._client.lookup_tables import topic_store
from spark_kafka_native._client.lookup_tables.stores import store_of, tables_for
from spark_kafka_native._client.lookup_tables.topic_store import TopicStore
from spark_kafka_native._client.partitioning.bucket_table import BucketTable
from spark_kafka_native._client.partitioning.lookup import BucketTables
from spark_kafka_native._client.partitioning.partitioner_names import LookupTableError, TableLocation
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from tests.support.clients.topics import Topics

T = BucketTable.create("t", 4)
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with EmbeddedBroker(topics={"t": 4, "narrow": 2}, settings=settings) as running:
        yield running


@pytest.fixture(params=[{}, {"acks": "0", "enable.idempotence": "false", "max.request.size": "1000"}])
def cluster(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(ClientConfig.parse({"bootstrap.servers": broker.bootstrap_servers, **request.param})) as opened:
        yield opened


@pytest.fixture
def store(cluster: Cluster) -> TopicStore:
    return TopicStore(cluster, f"lookup-tables-{next(NUMBERS)}")


def test_the_first_table_creates_a_compacted_topic(store: TopicStore, cluster: Cluster) -> None:
    assert store.change("t", lambda before: T if before is None else None) is T
    name = str(store).removeprefix("topic:")
    configs = describe_configs(cluster, Resource(type=ResourceType.TOPIC, name=name), ["cleanup.policy"])
    assert configs["cleanup.policy"].value == "compact"
    assert len(cluster.metadata([name]).topics[name].partitions) == 1


def test_the_last_record_counts_and_a_tombstone_deletes(store: TopicStore) -> None:
    store.change("t", lambda _: T)
    store.change("u", lambda _: BucketTable.create("u", 1))
    store.change("t", lambda before: None if before is None else before.reorganize(6))
    found = store.read()
    assert set(found) == {"t", "u"}
    assert found["t"].same_as(T.reorganize(6))
    assert set(store.read(["u", "v"])) == {"u"}
    store.change("u", lambda _: None)
    assert set(store.read()) == {"t"}
    assert T.reorganize(6).same_as(store.change("t", lambda before: before))


def test_a_second_change_at_the_same_time_is_an_error(store: TopicStore, cluster: Cluster) -> None:
    store.change("t", lambda _: T)
    other = TopicStore(cluster, str(store).removeprefix("topic:"))

    def change(before: BucketTable | None) -> BucketTable:
        assert before is not None
        other.change("t", lambda found: None if found is None else found.reorganize(5))
        return before.reorganize(6)

    with pytest.raises(LookupTableError, match="another process changes the table of topic t, too; this change was"):
        store.change("t", change)
    assert store.read()["t"].same_as(T.reorganize(5))


@pytest.fixture
def tool(broker: EmbeddedBroker) -> Iterator[Cluster]:
    """The connections of another process that changes tables."""
    with Cluster(ClientConfig.parse({"bootstrap.servers": broker.bootstrap_servers})) as opened:
        yield opened


def written(tool: Cluster, store: TopicStore, table: BucketTable, timeout_ms: int = 60_000) -> TransactionalProducer:
    """A table in an open transaction, as a tool that was killed before its commit leaves it."""
    name = str(store).removeprefix("topic:")
    producer = TransactionalProducer(tool, f"{name}.{table.topic}", timeout_ms=timeout_ms)
    producer.begin()
    producer.send(name, topic_store._record(table.topic, table))
    producer.flush()
    return producer


def test_a_change_begins_with_changes_that_an_open_transaction_hides(store: TopicStore, tool: Cluster) -> None:
    store.change("t", lambda _: T)
    with written(tool, store, BucketTable.create("u", 1), timeout_ms=1000):
        with written(tool, store, T.reorganize(6)) as second:
            second.commit()
        assert store.read()["t"].same_as(T)
        changed = store.change("t", lambda before: None if before is None else before.reorganize(8))
    assert changed is not None
    assert changed.partitions == (4, 6, 8)


def test_a_transaction_that_stays_open_is_an_error(
    store: TopicStore, tool: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.change("t", lambda _: T)
    monkeypatch.setattr(topic_store, "_WAIT_MS", 1)
    with (
        written(tool, store, BucketTable.create("u", 1)),
        pytest.raises(LookupTableError, match=r"another change is not finished: .* Run the command again later"),
    ):
        store.change("t", lambda before: None if before is None else before.reorganize(8))
    assert store.read()["t"].same_as(T)


def test_a_change_that_another_process_replaced_is_an_error(
    store: TopicStore, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.change("t", lambda _: T)
    other = TopicStore(cluster, str(store).removeprefix("topic:"))

    class Overtaken(TransactionalProducer):
        def commit(self, *, timeout_ms: float | None = None) -> None:
            super().commit(timeout_ms=timeout_ms)
            monkeypatch.undo()
            other.change("t", lambda found: None if found is None else found.reorganize(8))

    monkeypatch.setattr(topic_store, "TransactionalProducer", Overtaken)
    with pytest.raises(LookupTableError, match="another process changed the table of topic t after this change"):
        store.change("t", lambda found: None if found is None else found.reorganize(6))
    assert store.read()["t"].partitions == (4, 6, 8)


def test_an_error_of_the_change_writes_nothing(store: TopicStore, cluster: Cluster) -> None:
    def fail(_: BucketTable | None) -> BucketTable:
        raise LookupTableError("no")

    with pytest.raises(LookupTableError, match=r"^no$"):
        store.change("t", fail)
    with pytest.raises(LookupTableError, match="the topic does not exist; pykafka lookup-table --create creates it"):
        store.read()
    store.change("t", lambda _: T)
    with pytest.raises(LookupTableError, match=r"^no$"):
        store.change("t", fail)
    assert store.read()["t"].same_as(T)


def test_records_of_other_programs(store: TopicStore, broker: EmbeddedBroker) -> None:
    store.change("t", lambda _: T)
    with Topics(broker.bootstrap_servers) as topics:
        topics.write(str(store).removeprefix("topic:"), ["{}"], keys=["u"])
    assert set(store.read(["t"])) == {"t"}
    with pytest.raises(LookupTableError, match=f"the look-up table in {store}, topic u is not of format 1: 'None'"):
        store.read()


def test_tables_that_are_too_large(store: TopicStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.change("t", lambda _: T)
    monkeypatch.setattr(topic_store, "MAX_TABLE_BYTES", 1000)
    with pytest.raises(LookupTableError, match="has tables of more than 1000 bytes"):
        store.read()


def test_topics_that_cannot_have_tables(cluster: Cluster, broker: EmbeddedBroker) -> None:
    with pytest.raises(LookupTableError, match="topic:narrow: the topic has 2 partitions instead of one"):
        TopicStore(cluster, "narrow").read()
    name = f"deleted-{next(NUMBERS)}"
    broker.create_topic(name, 1)
    with pytest.raises(LookupTableError, match=f"topic:{name}: the topic has cleanup.policy=delete"):
        TopicStore(cluster, name).change("t", lambda _: T)


def test_a_producer_asks_for_newer_metadata_before_it_refuses_a_table(cluster: Cluster, broker: EmbeddedBroker) -> None:
    name = f"widened-{next(NUMBERS)}"
    broker.create_topic(name, 4)
    table = BucketTable.create(name, 4)
    rows = pa.RecordBatch.from_pydict({"key": pa.array([b"a", b"b"]), "value": pa.array([b"v", b"v"])})
    with Producer(cluster, partitioner=BucketTables(tables={name: table}, location="topic:x")) as producer:
        producer.send(name, rows)
    with Topics(broker.bootstrap_servers) as topics:
        topics.add_partitions(name, 5)
    with Producer(
        cluster, partitioner=BucketTables(tables={name: table.reorganize(5)}, location="topic:x")
    ) as producer:
        producer.send(name, rows)
    with (
        Producer(cluster, partitioner=BucketTables(tables={name: table.reorganize(6)}, location="topic:x")) as producer,
        pytest.raises(
            FewerPartitionsThanTable, match=f"topic {name} has 5 partitions, and its look-up table in topic:x has 6"
        ),
    ):
        producer.send(name, rows)


def test_tables_of_a_write_are_checked_with_the_topics(store: TopicStore, cluster: Cluster) -> None:
    location = TableLocation.parse(str(store))
    store_of(cluster, location).change("t", lambda _: T)
    store.change("narrow", lambda _: BucketTable.create("narrow", 3))
    store.change("missing", lambda _: BucketTable.create("missing", 3))
    assert set(tables_for(cluster, location).tables) == {"t", "narrow", "missing"}
    assert set(tables_for(cluster, location, ["t", "missing"]).tables) == {"t", "missing"}
    with pytest.raises(FewerPartitionsThanTable, match="topic narrow has 2 partitions, and its look-up table in"):
        tables_for(cluster, location, ["narrow"])
    with pytest.raises(LookupTableError, match=r"topic other has no table in .* --create --topic other"):
        tables_for(cluster, location, ["t", "other"])
