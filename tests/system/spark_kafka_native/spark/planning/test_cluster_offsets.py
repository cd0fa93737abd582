from collections.abc import Iterator

import pytest
from dirty_equals import IsStr

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.planning.bounds import OffsetSource
from spark_kafka_native._spark.planning.cluster_offsets import ClusterOffsets
from tests.support.clients.topics import Topics
from tests.support.features.feature import showing


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    with EmbeddedBroker() as broker, Topics(broker.bootstrap_servers) as made:
        yield made


@pytest.fixture
def offsets(topics: Topics) -> ClusterOffsets:
    return ClusterOffsets(config(topics.bootstrap_servers))


def config(servers: str, **options: str) -> ClientConfig:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return ClientConfig.parse({"bootstrap.servers": servers} | named)


def test_cluster_offsets_is_an_offset_source(offsets: ClusterOffsets) -> None:
    source: OffsetSource = offsets
    assert source.list_offsets({}) == {}


def test_topics_that_exist(topics: Topics, offsets: ClusterOffsets) -> None:
    one, three = topics.create(1), topics.create(3)
    assert offsets.topics([one, three, "no-such-topic"]) == {one: (0,), three: (0, 1, 2)}
    everything = offsets.topics(None)
    assert everything[three] == (0, 1, 2)
    assert not [name for name in everything if name.startswith("__")]


def test_a_process_warns_once_while_no_broker_can_be_reached(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deadline, "pause", lambda *_: False)
    offsets = ClusterOffsets(config("127.0.0.1:1,127.0.0.2:1"))
    for _ in range(2):
        with pytest.raises(BrokerUnreachable):
            offsets.topics(["t"])
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    refused = r"127\.0\.0\.[12]:1: connection refused"
    reason = rf"no broker of bootstrap\.servers can be reached \({refused}; {refused}\)"
    text = rf"{reason}; trying again for at least [0-9.]+ s"
    assert warnings == [IsStr(regex=text)]


def test_topic_lookup_does_not_create_the_topic(offsets: ClusterOffsets) -> None:
    assert offsets.topics(["made-by-looking"]) == {}
    assert "made-by-looking" not in offsets.topics(None)


def test_invalid_topic_names(offsets: ClusterOffsets) -> None:
    with pytest.raises(KafkaError, match=r"a b.*\(INVALID_TOPIC_EXCEPTION, "):
        offsets.topics(["a b"])


def test_offsets_by_position_and_time(topics: Topics, offsets: ClusterOffsets) -> None:
    topic = topics.create(2)
    topics.write(topic, ["a", "b", "c"], partition=1, timestamps=[1000, 2000, 3000])
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert offsets.list_offsets({first: -1, second: -1}) == {first: 0, second: 3}
    assert offsets.list_offsets({first: -2, second: 1500}) == {first: 0, second: 1}
    assert offsets.list_offsets({first: 1500, second: 3001}) == {first: -1, second: -1}
    assert set(offsets.leaders([first, second])) == {first, second}


def test_partitions_that_do_not_exist_are_left_out(topics: Topics, offsets: ClusterOffsets) -> None:
    topic, gone = topics.create(1), topics.create(1)
    topics.write(topic, ["a"])
    wanted = [TopicPartition(topic, 0), TopicPartition(topic, 7), TopicPartition(gone, 0)]
    assert offsets.list_offsets(dict.fromkeys(wanted, -1)) == {wanted[0]: 1, wanted[2]: 0}
    topics.delete(gone)
    assert offsets.list_offsets(dict.fromkeys(wanted, -1)) == {wanted[0]: 1}
    assert offsets.list_offsets({wanted[1]: -2}) == {}


@pytest.mark.feature("better.recreated")
def test_ids_of_topics_are_those_of_the_last_response(topics: Topics, offsets: ClusterOffsets) -> None:
    one, two = topics.create(1), topics.create(1)
    assert offsets.topic_ids([one, two]) == {}
    offsets.topics([one, two, "no-such-topic"])
    before = offsets.topic_ids([one, two, "no-such-topic"])
    assert before.keys() == {one, two}
    topics.delete(one)
    offsets.topics([one])
    assert offsets.topic_ids([one, two]) == {two: before[two]}
    topics.create(1, name=one)
    offsets.topics(None)
    after = offsets.topic_ids([one, two])
    assert after[two] == before[two]
    assert after[one] != before[one]


@pytest.mark.feature("more.commitToGroup", "more.startCommitted")
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_commits_of_a_group(topics: Topics, isolation: str) -> None:
    offsets = ClusterOffsets(config(topics.bootstrap_servers, isolation_level=isolation))
    topic, group = topics.create(2), f"group-{isolation}"
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert offsets.committed(group, [first, second]) == {}
    offsets.commit(group, {second: OffsetAndMetadata(offset=5, metadata="here")})
    assert offsets.committed(group, [first, second]) == {second: OffsetAndMetadata(offset=5, metadata="here")}
    unreachable = ClusterOffsets(config("127.0.0.1:1"))
    with pytest.raises(BrokerUnreachable):
        unreachable.commit(group, {second: OffsetAndMetadata(offset=5)}, timeout_ms=600)
    with pytest.raises(BrokerUnreachable):
        unreachable.committed(group, [second], timeout_ms=600)


def test_servers_that_do_not_respond_are_named() -> None:
    unreachable = ClusterOffsets(config("127.0.0.1:1", default_api_timeout_ms="300"))
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:1"):
        unreachable.topics(["t"])


@pytest.mark.feature("more.filters")
def test_largest_timestamps(topics: Topics, offsets: ClusterOffsets) -> None:
    topic = topics.create(2)
    topics.write(topic, ["a", "b", "c"], timestamps=[5, 900, 70])
    assert offsets.latest_timestamps([TopicPartition(topic, 0), TopicPartition(topic, 1)]) == {
        TopicPartition(topic, 0): 900
    }


@pytest.mark.parametrize(
    ("release", "epoch_ends"),
    [
        showing("2.2", {}, shows="client.oldBrokers"),
        showing("2.8", {TopicPartition("t", 0): 1}, shows="client.oldBrokers client.leaderEpochs"),
    ],
)
def test_lookups_that_old_brokers_support(release: str, epoch_ends: dict[TopicPartition, int]) -> None:
    with EmbeddedBroker(topics={"t": 1}, settings={"as.version": release}) as broker:
        with Topics(broker.bootstrap_servers) as topics:
            topics.write("t", ["a"])
            broker.faults.move_leader("t")
            topics.write("t", ["b"])
        offsets = ClusterOffsets(config(broker.bootstrap_servers))
        assert offsets.ends_of_epochs({TopicPartition("t", 0): 0}) == epoch_ends
        assert offsets.latest_timestamps([TopicPartition("t", 0)]) == {}
