from uuid import UUID, uuid4

import pytest

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._spark.planning.topic_register import MAX_METADATA_BYTES, REGISTER_TOPIC, SUFFIX, TopicRegister
from tests.support.spark.fake_offsets import FakeCluster

GROUP = f"g{SUFFIX}"

pytestmark = pytest.mark.feature("better.recreatedAcrossRestarts")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def register(cluster: FakeCluster) -> TopicRegister:
    return TopicRegister("g", cluster, timeout_ms=100)


def ids_of(count: int) -> dict[str, UUID]:
    return {f"topic-{number}": uuid4() for number in range(count)}


@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_registered_topic_ids_are_recalled_by_the_next_run(cluster: FakeCluster, count: int) -> None:
    ids = ids_of(count)
    register(cluster).note(ids, refresh=False)
    assert register(cluster).recall([*ids, "unknown"]) == ids
    assert {tp.topic for tp in cluster.groups.get(GROUP, {})} <= {REGISTER_TOPIC}
    assert "g" not in cluster.groups, "lag tools show the group as it is"


def test_register_commits_only_changed_topic_ids(cluster: FakeCluster) -> None:
    ids = ids_of(20)
    noting = register(cluster)
    for _ in range(5):
        noting.note(ids, refresh=False)
    assert cluster.requests.count("commit") == 1
    ids["topic-3"] = uuid4()
    noting.note(ids, refresh=False)
    assert cluster.requests.count("commit") == 2
    assert register(cluster).recall(ids) == ids
    again = register(cluster)
    again.recall(ids)
    again.note(ids, refresh=False)
    assert cluster.requests.count("commit") == 2
    again.note(ids, refresh=True)
    assert cluster.requests.count("commit") == 3


def test_register_drops_topics_that_are_no_longer_read(cluster: FakeCluster) -> None:
    cluster.offsets_partitions = 1
    ids = ids_of(3)
    register(cluster).note(ids, refresh=False)
    register(cluster).note({"topic-1": ids["topic-1"]}, refresh=False)
    assert register(cluster).recall(ids) == {"topic-1": ids["topic-1"]}


def test_register_is_limited_by_offset_metadata_max_bytes(cluster: FakeCluster) -> None:
    cluster.offsets_partitions = 1
    ids = ids_of(500)
    register(cluster).note(ids, refresh=False)
    (commit,) = cluster.groups[GROUP].values()
    assert len(commit.metadata) <= MAX_METADATA_BYTES
    found = register(cluster).recall(ids)
    assert len(found) == 131
    assert found.items() <= ids.items()


def test_cluster_without_the_topic_has_no_register_yet(cluster: FakeCluster) -> None:
    cluster.offsets_partitions = 0
    ids, noting = ids_of(2), register(cluster)
    noting.note(ids, refresh=False)
    assert noting.recall(ids) == {}
    assert cluster.groups == {}
    cluster.offsets_partitions = 50
    noting.note(ids, refresh=False)
    assert register(cluster).recall(ids) == ids


def test_unauthorized_register_is_warned_of_once(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.commit_error = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, REGISTER_TOPIC)
    noting = register(cluster)
    for _ in range(3):
        noting.note(ids_of(2), refresh=False)
    assert cluster.requests.count("commit") == 1
    assert caplog.text.count("will not be detected") == 1
    assert noting.recall(["topic-0"]) == {}


def test_retriable_error_of_the_register_is_retried(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    ids, noting = ids_of(2), register(cluster)
    cluster.commit_error = BrokerUnreachable({HostPort("broker", 9092): "connection refused"}, "for OffsetCommit")
    noting.note(ids, refresh=False)
    cluster.commit_error = None
    noting.note(ids, refresh=False)
    assert register(cluster).recall(ids) == ids
    assert caplog.text == ""


def test_ids_that_cannot_be_recalled_are_left_out(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    ids = ids_of(2)
    register(cluster).note(ids, refresh=False)
    known = cluster.committed

    def refuse(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Describe on the group")

    cluster.committed = refuse  # type: ignore[assignment, method-assign]  # a cluster that refuses
    assert register(cluster).recall(ids) == {}
    assert caplog.text.count("will not be detected") == 1
    cluster.committed = known  # type: ignore[method-assign]
    assert register(cluster).recall(ids) == ids


@pytest.mark.parametrize("foreign", ["", "anything", "pykafka:2 " + "A" * 30, "pykafka:1 short", "pykafka:1"])
def test_commit_metadata_of_other_programs_are_ignored(cluster: FakeCluster, foreign: str) -> None:
    ids = ids_of(1)
    register(cluster).note(ids, refresh=False)
    (place,) = cluster.groups[GROUP]
    cluster.groups[GROUP][place] = OffsetAndMetadata(offset=0, metadata=foreign)
    assert register(cluster).recall(ids) == {}
