import itertools
from collections.abc import Callable, Iterator

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError, PlanError
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from spark_kafka_native.tools import main as tool
from tests.support.clients.topics import Topics
from tests.support.requests.classic_group import RawMember
from tests.support.requests.consumer_group import RawConsumer
from tests.support.servers.brokers import AnyBroker
from tests.support.spark.stream_query import StreamQuery

GROUPS = (f"stream-{number}" for number in itertools.count(1))

QueryOf = Callable[..., StreamQuery]


@pytest.fixture
def topics(any_broker: AnyBroker) -> Iterator[Topics]:
    with Topics(any_broker.bootstrap_servers) as made:
        yield made


@pytest.fixture
def topic(topics: Topics) -> str:
    """Three partitions with 4, 2 and no records."""
    made = topics.create(3)
    topics.write(made, ["a", "b", "c", "d", "e", "f"], partition=[0, 0, 0, 0, 1, 1])
    return made


@pytest.fixture
def group() -> str:
    return next(GROUPS)


@pytest.fixture
def query(any_broker: AnyBroker, topic: str, group: str) -> QueryOf:
    """`query(startingOffsets="latest", ...)`: a query that commits to the group."""

    def make(**options: str) -> StreamQuery:
        servers = any_broker.bootstrap_servers
        source = ClusterOffsets(ClientConfig.parse({"bootstrap.servers": servers}))
        given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
        given |= {"kafka.group.id": group, "commitOffsetsToGroup": "true", "fetchOffset.retryIntervalMs": "20"}
        return StreamQuery(source, given | options)

    return make


@pytest.fixture
def lags(any_broker: AnyBroker, group: str, capsys: pytest.CaptureFixture[str]) -> Callable[[], list[list[str]]]:
    """Partition, committed offset, end and lag of each partition, as kafka-consumer-groups shows them."""

    def read() -> list[list[str]]:
        capsys.readouterr()
        where = ["--bootstrap-server", any_broker.bootstrap_servers]
        assert tool(["kafka-consumer-groups", *where, "--describe", "--group", group]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines() if line]
        return [row[2:6] for row in rows if row[0] == group]

    return read


@pytest.mark.feature("more.commitToGroup")
def test_lag_is_nothing_after_available_now(query: QueryOf, lags: Callable[[], list[list[str]]]) -> None:
    query(maxOffsetsPerTrigger="4").start(available_now=True).run_to_the_end()
    assert lags() == [["0", "4", "4", "0"], ["1", "2", "2", "0"], ["2", "0", "0", "0"]]


@pytest.mark.feature("more.startCommitted")
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_starts_where_another_query_ended(query: QueryOf, topics: Topics, topic: str, isolation: str) -> None:
    query().start(available_now=True).run_to_the_end()
    topics.write(topic, ["g"], partition=2)
    options = {"startingOffsets": "committed", "kafka.isolation.level": isolation}
    second = query(**options)
    second.cluster = ClusterOffsets(
        ClientConfig.parse({"bootstrap.servers": topics.bootstrap_servers, "isolation.level": isolation})
    )
    second.start(available_now=True).run_to_the_end()
    assert second.read == {TopicPartition(topic, 2): [0]}


@pytest.mark.feature("better.recreated", "better.recreatedAcrossRestarts")
@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_topic_that_is_made_again_and_overtakes(
    query: QueryOf, topics: Topics, topic: str, group: str, fail_on_data_loss: str
) -> None:
    """While a query runs it finds out by itself; another, started later, by the group's commits."""
    running = query(failOnDataLoss=fail_on_data_loss).start()
    running.run_to_the_end()
    running.later().trigger()
    commits = running.cluster.committed(group, [TopicPartition(topic, 0)])
    assert commits[TopicPartition(topic, 0)].metadata.startswith("pykafka:1:")
    topics.delete(topic)
    topics.create(3, name=topic)
    topics.write(topic, list("ABCDEFGH"), partition=[0] * 5 + [1, 1, 2])
    restarted = query(failOnDataLoss=fail_on_data_loss)
    restarted.offsets_log, restarted.commits = list(running.offsets_log), running.commits
    for later in (running, restarted):
        later.read.clear()
        later.later()
        if fail_on_data_loss == "true":
            with pytest.raises(DataLossError, match=r"TOPIC_RECREATED\] topic .* was deleted and created again"):
                (later if later is running else later.start()).trigger()
        else:
            (later if later is running else later.start()).run_to_the_end()
            assert {tp.partition: read for tp, read in later.read.items()} == {0: [0, 1, 2, 3, 4], 1: [0, 1], 2: [0]}


@pytest.mark.feature("more.commitToGroup")
@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_group_that_has_members_is_an_error_that_names_it(
    query: QueryOf, any_broker: AnyBroker, topic: str, group: str, kind: str
) -> None:
    address = any_broker.bootstrap_servers
    running = query().start()
    if kind == "classic":
        with RawMember(address, group, topics=(topic,)) as member:
            member.join()
            refused(running)
    else:
        with RawConsumer(address, group, topic) as consumer:
            consumer.join()
            refused(running)


def refused(running: StreamQuery) -> None:
    with pytest.raises(PlanError, match=r"KAFKA_GROUP_COMMIT_REFUSED.* active members, and only they can commit"):
        running.trigger()


def test_commits_outside_a_group_and_their_metadata(any_broker: AnyBroker, topic: str, group: str) -> None:
    source = ClusterOffsets(ClientConfig.parse({"bootstrap.servers": any_broker.bootstrap_servers}))
    tp, gone = TopicPartition(topic, 0), TopicPartition(topic, 9)
    mark = OffsetAndMetadata(offset=3, metadata="pykafka:1:" + "A" * 22 + ":9223372036854775807")
    source.commit(group, {tp: mark})
    found = source.committed(group, [tp, TopicPartition(topic, 1)])
    assert {tp: (commit.offset, commit.metadata) for tp, commit in found.items()} == {tp: (3, mark.metadata)}
    with pytest.raises(KafkaError, match=r"\(UNKNOWN_TOPIC_OR_PARTITION, "):
        source.commit(group, {gone: mark}, timeout_ms=300)


@pytest.mark.feature("better.idle")
def test_idle_query_sends_a_few_requests_a_second() -> None:
    """Counted by the broker over ten seconds of the query's clock, while Spark asks every 11 ms."""
    with EmbeddedBroker(topics={"t": 3}) as broker:
        source = ClusterOffsets(ClientConfig.parse({"bootstrap.servers": broker.bootstrap_servers}))
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.group.id": "g"}
        running = StreamQuery(source, options | {"commitOffsetsToGroup": "true"}).start()
        for _ in range(100):
            running.later(11).trigger()
        broker.forget_requests()
        for _ in range(10_000 // 11):
            assert not running.later(11).trigger()
        counts = dict(broker.request_counts())
    assert counts.keys() == {"Metadata", "ListOffsets"}
    assert 9 <= counts["Metadata"] <= 10
    assert 38 <= counts["ListOffsets"] <= 41
