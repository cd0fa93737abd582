"""``broker.addresses=bootstrap``: clients of brokers whose advertised.listeners they cannot reach.

Brokers advertise port 1, which refuses connections. Clients reach them through a TCP forwarder, or through one that
gives each new connection to the next broker.
"""

from collections.abc import Iterator

import pytest

from spark_kafka_native._client.admin.committed_offsets import commit_offsets, fetch_offsets
from spark_kafka_native._client.admin.topics import NewTopic, create_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets, offsets_at
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_topics import CreateTopicsRequest
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from tests.support.clients.interface import Record
from tests.support.clients.native import rows_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.fetched_logs import LAST, fill
from tests.support.scripted.proxy import LoadBalancer
from tests.support.scripted.several_partitions import ranges, read, tp, whole
from tests.support.scripted.steps import Refuse

BROKERS = PARTITIONS = 3


class HiddenBrokers(ScriptedCluster):
    """Brokers that advertise port 1, which refuses connections."""

    @property
    def ports(self) -> dict[int, int]:
        return dict.fromkeys(super().ports, 1)


@pytest.fixture
def brokers() -> Iterator[HiddenBrokers]:
    """Each leads one partition."""
    with HiddenBrokers(brokers=BROKERS, topics={"t": PARTITIONS}) as running:
        for number in range(PARTITIONS):
            fill(running.partition("t", number))
        yield running


@pytest.fixture
def balancer(brokers: HiddenBrokers) -> Iterator[LoadBalancer]:
    """It gives each new connection to the next broker."""
    with LoadBalancer(str(broker.address) for broker in brokers.brokers.values()) as running:
        yield running


@pytest.fixture
def cluster(brokers: HiddenBrokers, balancer: LoadBalancer) -> Iterator[Cluster]:
    """A client of the load balancer's address alone."""
    with Cluster(brokers.config(bootstrap_servers=balancer.address, broker_addresses="bootstrap")) as made:
        yield made


def test_advertised_addresses_are_used_by_default(brokers: HiddenBrokers, balancer: LoadBalancer) -> None:
    config = brokers.config(bootstrap_servers=balancer.address, default_api_timeout_ms=200)
    unreachable = r"127\.0\.0\.1:1: .* has it in advertised\.listeners"
    with Cluster(config) as cluster, pytest.raises(BrokerUnreachable, match=unreachable):
        offsets_at(cluster, {tp(0): LATEST})


def test_offsets_are_listed_by_the_leaders(brokers: HiddenBrokers, cluster: Cluster) -> None:
    for number in range(PARTITIONS):
        assert offsets_at(cluster, {tp(number): LATEST}) == {tp(number): LAST}
    assert offsets_at(cluster, dict.fromkeys(map(tp, range(PARTITIONS)), LATEST)) == dict.fromkeys(
        map(tp, range(PARTITIONS)), LAST
    )


def test_partitions_are_read_from_their_leaders(brokers: HiddenBrokers, cluster: Cluster) -> None:
    wanted = ranges(range(PARTITIONS))
    reading = read(cluster, wanted)
    assert reading.offsets == whole(wanted)
    assert not reading.errors


def test_a_connection_is_used_again_for_the_broker_that_it_is_to(brokers: HiddenBrokers, cluster: Cluster) -> None:
    wanted = ranges(range(PARTITIONS))
    read(cluster, wanted)
    connections = sum(broker.accepted for broker in brokers.brokers.values())
    for _ in range(3):
        brokers.received.clear()
        assert read(cluster, wanted).offsets == whole(wanted)
        asked = set(brokers.nodes(FetchRequest))
        assert asked == {1, 2, 3}
    assert sum(broker.accepted for broker in brokers.brokers.values()) == connections


def test_a_moved_leader_is_found(brokers: HiddenBrokers, cluster: Cluster) -> None:
    wanted = ranges([0])
    assert read(cluster, wanted).offsets == whole(wanted)
    brokers.move_leader("t", 0, to=3)
    assert read(cluster, wanted).offsets == whole(wanted)
    assert offsets_at(cluster, {tp(0): LATEST}) == {tp(0): LAST}


def test_topics_are_created_at_the_controller(brokers: HiddenBrokers, cluster: Cluster) -> None:
    brokers.state.controller = 3
    create_topics(cluster, [NewTopic(name="new", partitions=2)])
    assert brokers.nodes(CreateTopicsRequest)[-1] == 3
    assert set(cluster.metadata(["new"]).topics) == {"new"}


def test_offsets_are_committed_at_the_coordinator(brokers: HiddenBrokers, cluster: Cluster) -> None:
    brokers.state.coordinator = 2
    commit_offsets(cluster, "g", {tp(0): 5})
    assert brokers.nodes(OffsetCommitRequest)[-1] == 2
    assert {part: found.offset for part, found in fetch_offsets(cluster, "g", [tp(0)]).items()} == {tp(0): 5}


def test_the_next_try_waits_for_the_usual_pause_and_ends_at_the_deadline(
    brokers: HiddenBrokers, cluster: Cluster
) -> None:
    refusals = [Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 1000
    brokers.script(ListOffsetsRequest, *refusals)
    with pytest.raises(KafkaError) as caught:
        list_offsets(cluster, {tp(0): LATEST}, timeout_ms=1000)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert 1 < len(brokers.requests(ListOffsetsRequest)) < 1000


def test_idle_connections_are_lent_for_the_same_broker_only(cluster: Cluster) -> None:
    deadline = Deadline.after_ms(60_000)
    nodes = cluster.metadata([]).brokers
    cluster.close()
    first = cluster.borrow(nodes[1], deadline)
    cluster.give_back(first)
    assert cluster.borrow_idle(nodes[2]) is None
    with cluster.lent(nodes[2], deadline) as second:
        assert second is not first
    assert cluster.borrow_idle(nodes[1]) is first
    first.close()


def test_servers_of_which_one_is_down_are_used_one_after_the_other(brokers: HiddenBrokers) -> None:
    """Forwarded ports, each to one broker, instead of a load balancer."""
    servers = ",".join(str(broker.address) for broker in brokers.brokers.values())
    brokers.move_leader("t", 0, to=3)
    brokers.move_leader("t", 1, to=3)
    brokers.brokers[1].stop()
    with Cluster(brokers.config(bootstrap_servers=servers, broker_addresses="bootstrap")) as cluster:
        wanted = ranges(range(PARTITIONS))
        reading = read(cluster, wanted)
        assert not reading.errors
        assert reading.offsets == whole(wanted)
    brokers.brokers[1].start()


def test_records_are_written_to_their_leaders(cluster: Cluster, brokers: HiddenBrokers) -> None:
    brokers.state.create("new", PARTITIONS)
    for _ in range(3):
        rows = [Record(None, b"%d" % number, partition=number % PARTITIONS) for number in range(30)]
        with Producer(cluster) as producer:
            producer.send("new", rows_of(rows))
            producer.send("new", rows_of(rows))
    assert [len(values) for values in brokers.values("new")] == [60] * PARTITIONS
