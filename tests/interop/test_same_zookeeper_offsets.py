"""OffsetCommit v0 and OffsetFetch v0 at Apache Kafka on ZooKeeper and at the bundled broker: responses and znodes."""

from collections.abc import Iterator
from typing import Final

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_acl

from broker_embedded.testing import EmbeddedBroker, EmbeddedZooKeeper
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from spark_kafka_native._protocol.messages.describe_groups import DescribeGroupsRequest
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from spark_kafka_native._protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from spark_kafka_native._protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.support.report import skip_if
from tests.support.requests.conversation import Conversation
from tests.support.requests.of_topic import offset_commit, offset_fetch
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.requests.same_responses import Both, compare_brokers
from tests.support.servers.apache_kafka import LAST_KAFKA_WITH_ZOOKEEPER, apache_kafka_unavailable
from tests.support.servers.kafka_on_zookeeper import KafkaOnZooKeeper, zookeeper_client
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

RELEASE = LAST_KAFKA_WITH_ZOOKEEPER
EMOJI: Final = "\N{GRINNING FACE}"
UNUSUAL: Final = (
    *("", ".", "..", " ", "a b", "a%2Fb", "x" * 32_000, "a.b", "...", "a/b", "/a", "a/", "a//b", "a/./b", "a/../b"),
    *("\0", "\x01", "\x1f", "\x7f", "\x9f", "\xa0", "\u00fc", "\u4e2d", EMOJI, "\ue000", "\uf8ff", "\uf900", "\uffef"),
    *("\ufff0", "\uffff", "/".join("abcdefghij")),
)
"""Ids of groups."""
CONTENTS: Final = (
    *(b"12", b"-3", b"+7", b"007", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808"),
    *(b" 7", b"7\n", b"7.0", b"1_0", b"0x1", b"abc", b"+", b"-", b"\xff", None),
)
"""Data of znodes. Kafka distinguishes no data from empty data, the bundled broker does not."""
READ_ONLY: Final = make_acl("world", "anyone", read=True)
WRITE_ONLY: Final = make_acl("world", "anyone", write=True, admin=True)


class OnZooKeeper(Conversation):
    """Requests to a broker in ZooKeeper, and the znodes of its groups."""

    def __init__(self, bootstrap_servers: str, zookeeper: KazooClient) -> None:
        super().__init__(bootstrap_servers)
        self.address = bootstrap_servers
        self.zookeeper = zookeeper

    def path(self, topic: str, partition: int, group: str) -> str:
        """The znode of an offset."""
        return f"/consumers/{group}/offsets/{self.topic(topic)}/{partition}"

    def remember_znodes(self, group: str, note: str = "") -> None:
        """Remember data and kind of all znodes of a group."""
        self.remember(f"znodes {note}".strip(), self._znodes(f"/consumers/{group}"))

    def _znodes(self, path: str) -> tuple[str, ...]:
        data, stat = self.zookeeper.get(path)
        name = path.replace(self.topic(""), "")
        found = [f"{name} {data!r} {'ephemeral' if stat.ephemeralOwner else 'persistent'}"]
        for child in self.zookeeper.get_children(path):
            found += self._znodes(f"{path}/{child}")
        return tuple(found)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedZooKeeper]:
    """A server of its own, which a test pauses."""
    with EmbeddedZooKeeper() as running:
        yield running


@pytest.fixture(scope="module")
def apache_kafka(server: EmbeddedZooKeeper) -> Iterator[KafkaOnZooKeeper]:
    skip_if(apache_kafka_unavailable(RELEASE))
    with KafkaOnZooKeeper(connect=f"{server.connect_string}/theirs", release=RELEASE) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def kafka_broker(server: EmbeddedZooKeeper) -> Iterator[EmbeddedBroker]:
    settings = {"as.version": RELEASE, "zookeeper.connect": f"{server.connect_string}/ours"}
    with EmbeddedBroker(settings=settings | {"offsets.topic.num.partitions": 3}) as broker:
        yield broker


@pytest.fixture
def both(server: EmbeddedZooKeeper, kafka_broker: EmbeddedBroker, apache_kafka: KafkaOnZooKeeper) -> Iterator[Both]:
    connect = server.connect_string
    with zookeeper_client(f"{connect}/ours") as our_client, zookeeper_client(f"{connect}/theirs") as their_client:
        ours = OnZooKeeper(kafka_broker.bootstrap_servers, our_client)
        theirs = OnZooKeeper(apache_kafka.bootstrap_servers, their_client)
        for broker in (ours, theirs):  # Kafka creates the topic of groups when their coordinator is looked up
            broker.response(FindCoordinatorRequest(key="g"), 0)
            broker.response(offset_fetch("t", version=2), 2)
        yield Both(ours, theirs)
        ours.close()
        theirs.close()


def commit(
    broker: OnZooKeeper, offset: int, *partitions: int, topic: str = "t", group: str = "g", version: int = 0
) -> None:
    request = offset_commit(broker.topic(topic), offset, *partitions, group_id=group)
    broker.ask(request, version, f"{offset} for {topic} {partitions} of {group!r}")


def fetch(broker: OnZooKeeper, *partitions: int, version: int = 0, topic: str = "t", group: str = "g") -> None:
    request = offset_fetch(broker.topic(topic), *partitions, version=version, group_id=group)
    broker.ask(request, version, f"{topic} {partitions} of {group!r}")


@compare_brokers
def test_offsets_of_v0_are_in_zookeeper_and_those_of_v1_are_not(broker: OnZooKeeper) -> None:
    broker.create("t", 3)
    fetch(broker, 0, 1, 7)
    commit(broker, 5, 0, 1, 7)
    commit(broker, 5, topic="missing")
    fetch(broker, 0, 1, 2, 7)
    fetch(broker, topic="missing")
    commit(broker, 6, 0)
    fetch(broker, 0)
    broker.remember_znodes("g")
    fetch(broker, 0, 1, version=1)
    commit(broker, 9, 1, 2, version=2)
    for version in (0, 1):
        fetch(broker, 0, 1, 2, version=version)
    broker.remember_znodes("g", "after v2")


@compare_brokers
def test_groups_in_zookeeper_are_not_those_of_the_coordinator(broker: OnZooKeeper) -> None:
    broker.create("t")
    commit(broker, 5, group="only-zookeeper")
    broker.ask(DescribeGroupsRequest(groups=("only-zookeeper",)), 5)
    listed = [group.group_id for group in broker.response(ListGroupsRequest(), 4).groups]
    broker.remember("listed", tuple(name for name in listed if name == "only-zookeeper"))


@compare_brokers
def test_metadata_is_checked_and_not_stored(broker: OnZooKeeper) -> None:
    broker.create("t")
    for number, metadata in enumerate((None, "", "note", "x" * 4096, "x" * 4097, EMOJI * 2048, EMOJI * 2049)):
        part = OffsetCommitRequestPartition(committed_offset=number, committed_metadata=metadata)
        topics = (OffsetCommitRequestTopic(name=broker.topic("t"), partitions=(part,)),)
        for group in ("metadata", ""):
            broker.ask(OffsetCommitRequest(group_id=group, topics=topics), 0, f"{number} {group!r}")
        fetch(broker, group="metadata")


@pytest.mark.parametrize("offset", [0, -1, -5, 2**63 - 1, -(2**63)])
@compare_brokers
def test_any_offset_is_stored(broker: OnZooKeeper, offset: int) -> None:
    broker.create("t")
    group = f"offset{offset}"
    commit(broker, offset, group=group)
    fetch(broker, group=group)
    broker.remember_znodes(group)


@compare_brokers
def test_unusual_group_ids(broker: OnZooKeeper) -> None:
    broker.create("t")
    for group in UNUSUAL:
        fetch(broker, group=group)
        for offset in (5, 6):
            commit(broker, offset, group=group)
        fetch(broker, group=group)
    broker.remember_znodes("a")


@compare_brokers
def test_znodes_of_other_programs_are_read(broker: OnZooKeeper) -> None:
    broker.create("t")
    for number, data in enumerate(CONTENTS):
        group = f"content{number}"
        broker.zookeeper.ensure_path(broker.path("t", 0, group).rpartition("/")[0])
        create(broker, broker.path("t", 0, group), data)
        fetch(broker, group=group)
        commit(broker, 5, group=group)
        fetch(broker, group=group)


def create(broker: OnZooKeeper, path: str, data: bytes | None, acl: ACL | None = None) -> None:
    broker.zookeeper.create(path, data, acl=OPEN_ACL_UNSAFE if acl is None else [acl])


@compare_brokers
def test_errors_of_zookeeper_concern_one_partition(broker: OnZooKeeper) -> None:
    broker.create("t", 3)
    broker.zookeeper.ensure_path(broker.path("t", 0, "errors").rpartition("/")[0])
    create(broker, broker.path("t", 0, "errors"), b"5", READ_ONLY)
    create(broker, broker.path("t", 1, "errors"), b"5", WRITE_ONLY)
    fetch(broker, 0, 1, 2, group="errors")
    commit(broker, 6, 0, 1, 2, group="errors")
    fetch(broker, 0, 1, 2, group="errors")
    broker.zookeeper.set_acls(broker.path("t", 1, "errors"), OPEN_ACL_UNSAFE)
    broker.remember_znodes("errors")


@compare_brokers
def test_a_parent_that_cannot_have_children_is_an_error(broker: OnZooKeeper) -> None:
    broker.create("t")
    create(broker, "/consumers/sealed", None, READ_ONLY)
    broker.zookeeper.create("/consumers/short", ephemeral=True)
    for group in ("sealed", "short"):
        commit(broker, 5, group=group)
        fetch(broker, group=group)


@compare_brokers
def test_repeated_topics_and_partitions(broker: OnZooKeeper) -> None:
    broker.create("t", 2)
    offsets = ((0, 5), (1, 6), (0, 7), (9, 1), (9, 2))
    parts = tuple(OffsetCommitRequestPartition(partition_index=index, committed_offset=each) for index, each in offsets)
    topics = (OffsetCommitRequestTopic(name=broker.topic("t"), partitions=parts),) * 2
    response = broker.response(OffsetCommitRequest(group_id="repeated", topics=topics), 0)
    # Kafka merges the topics of its response, the bundled broker in no version.
    codes = [(part.partition_index, part.error_code) for topic in response.topics for part in topic.partitions]
    broker.remember("OffsetCommit v0", tuple(codes))
    broker.remember_znodes("repeated")
    wanted = (OffsetFetchRequestTopic(name=broker.topic("t"), partition_indexes=(0, 1, 0, 9, 9)),) * 2
    broker.ask(OffsetFetchRequest(group_id="repeated", topics=wanted), 0)
    broker.ask(OffsetFetchRequest(group_id="repeated"), 0, "no topics")
    broker.ask(OffsetCommitRequest(group_id="repeated"), 0, "no topics")


@compare_brokers
def test_offsets_of_a_deleted_topic_stay(broker: OnZooKeeper) -> None:
    broker.create("deleted")
    commit(broker, 5, topic="deleted", group="readers")
    broker.response(DeleteTopicsRequest(topic_names=(broker.topic("deleted"),), timeout_ms=30_000), 5)
    wanted = MetadataRequest(
        topics=(MetadataRequestTopic(name=broker.topic("deleted")),), allow_auto_topic_creation=False
    )
    eventually(lambda: broker.response(wanted, 4).topics[0].error_code, 3)
    eventually(lambda: broker.zookeeper.exists(f"/brokers/topics/{broker.topic('deleted')}"), None)
    fetch(broker, topic="deleted", group="readers")
    broker.remember_znodes("readers")
    broker.create("deleted")
    fetch(broker, topic="deleted", group="readers")


@compare_brokers
def test_a_request_waits_until_zookeeper_responds(broker: OnZooKeeper, server: EmbeddedZooKeeper) -> None:
    broker.create("t")
    commit(broker, 5, group="patient")
    with RawClient(broker.address) as client:
        server.pause()
        client.send(request_bytes(offset_commit(broker.topic("t"), 6, group_id="patient"), 0))
        server.resume()
        broker.remember("OffsetCommit v0", decode_response(OffsetCommitResponse, 0, client.frame())[1])
        server.pause()
        client.send(request_bytes(offset_fetch(broker.topic("t"), version=0, group_id="patient"), 0))
        server.resume()
        broker.remember("OffsetFetch v0", decode_response(OffsetFetchResponse, 0, client.frame())[1])
