import contextlib
import functools
import logging
import random
import re
import socket
import threading
from collections.abc import Iterator

import pytest
from dirty_equals import IsInstance, IsTrueLike

from spark_kafka_native._client.cluster.cluster import UNKNOWN_TOPIC_TRIES, Cluster
from spark_kafka_native._client.cluster.metadata import Node
from spark_kafka_native._client.errors import BrokerNotAvailable, NoSuchPartition
from spark_kafka_native._net import blocking
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, ConnectionLost, RequestTimeout
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataResponse
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.refusals import refused
from tests.support.scripted.cluster import KAFKA_0_11, ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers
from tests.support.scripted.steps import BROKEN_CONNECTIONS, Drop, Held, Raw, Refuse, Respond, Silent, Step
from tests.support.servers.hanging import hanging_server
from tests.support.waiting import eventually

T0 = TopicPartition("t", 0)
ASK_FOR_ID = InitProducerIdRequest(transactional_id=None)


brokers = scripted_brokers(brokers=3, topics={"t": 3})


@pytest.fixture
def dead_ports() -> Iterator[list[int]]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(3)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        yield [probe.getsockname()[1] for probe in probes]


# --- metadata


@pytest.mark.feature("client.oldBrokers")
def test_brokers_before_0_11_get_metadata_requests_for_all_topics() -> None:
    with (
        ScriptedCluster(topics={"t": 1}, versions={**KAFKA_0_11, 3: (0, 3)}, topic_ids=False, auto_create=1) as brokers,
        Cluster(brokers.config()) as cluster,
    ):
        assert set(cluster.metadata(["missing", "t"], missing_ok=True).topics) == {"t"}
        with pytest.raises(KafkaError, match="topic missing"):
            cluster.metadata(["missing"])
        assert cluster.metadata(["missing"], missing_ok=True).topics == {}
        assert cluster.metadata([]).topics == {}
        assert set(brokers.state.topics) == {"t"}
        assert set(cluster.metadata(["missing"], create=True).topics) == {"missing"}


def test_metadata_goes_to_a_broker_with_an_open_connection(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for _ in range(10):
        cluster.metadata([])
    assert sum(broker.accepted for broker in brokers.brokers.values()) == 1


@pytest.fixture
def broker_2_first(brokers: ScriptedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of brokers of the same rank, broker 2 comes first, then broker 3."""
    ports = [brokers.brokers[number].port for number in (2, 3, 1)]
    monkeypatch.setattr(random, "shuffle", lambda addresses: addresses.sort(key=lambda each: ports.index(each.port)))


@pytest.mark.usefixtures("broker_2_first")
def test_metadata_does_not_go_to_a_broker_while_another_thread_connects_to_it(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    answers = threading.Event()
    brokers.script(ApiVersionsRequest, Held(answers), broker=2)
    without_idle_connection(cluster)
    borrow = functools.partial(cluster.borrow, cluster.node(2, Deadline.after_ms(0)))
    pending = cluster.pending_connections.begin(brokers.brokers[2].address, borrow, Deadline.after_ms(60_000))
    eventually(lambda: brokers.brokers[2].accepted, 1)
    cluster.metadata([])
    answers.set()
    cluster.give_back(eventually(pending.take, IsInstance(Connection)))  # type: ignore[arg-type]  # not None: expected
    assert brokers.nodes(MetadataRequest) == [1, 3]


@pytest.mark.usefixtures("broker_2_first")
def test_metadata_does_not_go_to_a_broker_that_did_not_respond_in_time(
    brokers: ScriptedCluster, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "_TIMED_OUT_AFTER_MS", 0)
    without_idle_connection(cluster)
    let_time_out(brokers, cluster)
    cluster.metadata([])
    without_idle_connection(cluster)
    cluster.borrow(cluster.node(2, Deadline.after_ms(0)), Deadline.after_ms(60_000)).close()
    cluster.metadata([])
    assert brokers.nodes(MetadataRequest) == [1, 3, 3, 2], "a new connection shows that it responds"


@pytest.mark.usefixtures("broker_2_first")
def test_metadata_goes_to_a_broker_that_had_too_little_time_to_respond(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    without_idle_connection(cluster)
    let_time_out(brokers, cluster)
    cluster.metadata([])
    assert brokers.nodes(MetadataRequest) == [1, 2]


def let_time_out(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """Send a request to broker 2 at the end of its deadline."""
    cluster.give_back(cluster.borrow(cluster.node(2, Deadline.after_ms(0)), Deadline.after_ms(60_000)))
    brokers.script(InitProducerIdRequest, Silent(), broker=2)
    with pytest.raises(RequestTimeout):
        cluster.send_once(2, ASK_FOR_ID, Deadline.after_ms(0))


def without_idle_connection(cluster: Cluster) -> None:
    """Learn the brokers, and close the connection."""
    for node in cluster.metadata([]).brokers.values():
        if connection := cluster.borrow_idle(node):
            connection.close()


def test_metadata_of_some_topics_of_all_and_of_none(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.state.create("u", 1)
    assert set(cluster.metadata(["t"]).topics) == {"t"}
    assert set(cluster.metadata().topics) == {"t", "u"}
    found = cluster.metadata([])
    assert found.topics == {}
    assert sorted(found.brokers) == [1, 2, 3]


def test_reading_metadata_never_creates_topics(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.state.auto_create = 2
    with pytest.raises(KafkaError, match="topic missing: "):
        cluster.metadata(["missing"])
    assert all(not request.allow_auto_topic_creation for request in brokers.requests(MetadataRequest))
    assert len(cluster.metadata(["missing"], create=True).topics["missing"].partitions) == 2


def test_an_unknown_topic_is_an_error_after_a_few_tries(brokers: ScriptedCluster, cluster: Cluster) -> None:
    error = refused(cluster.metadata, ["t", "missing"])
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "topic missing" in str(error)
    assert len(brokers.requests(MetadataRequest)) == UNKNOWN_TOPIC_TRIES


def test_a_topic_that_appears_a_little_later_is_found(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(
        MetadataRequest, Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Refuse(ErrorCode.LEADER_NOT_AVAILABLE)
    )
    assert len(cluster.metadata(["t"]).topics["t"].partitions) == 3


def test_with_missing_ok_topics_in_error_come_back_as_such(brokers: ScriptedCluster, cluster: Cluster) -> None:
    found = cluster.metadata(["t", "missing"], missing_ok=True).topics
    assert found["t"].error is ErrorCode.NONE
    assert found["missing"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(brokers.requests(MetadataRequest)) == 1


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_errors_that_are_not_retriable_are_raised_at_once(
    brokers: ScriptedCluster, cluster: Cluster, code: ErrorCode
) -> None:
    brokers.script(MetadataRequest, Refuse(code))
    assert refused(cluster.metadata, ["t"]).code is code
    assert len(brokers.requests(MetadataRequest)) == 1


def test_an_unknown_topic_is_waited_for_until_the_deadline(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(MetadataRequest, *[Refuse(ErrorCode.LEADER_NOT_AVAILABLE)] * 5_000)
    with pytest.raises(KafkaError, match=r"\(LEADER_NOT_AVAILABLE, "):
        cluster.metadata(["t"], timeout_ms=1_000)


@pytest.mark.parametrize(
    "step",
    [
        Respond(lambda _: MetadataResponse()),
        Respond(lambda _: MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)),
    ],
    ids=["names no broker", "asks for a new bootstrap"],
)
def test_metadata_without_leaders_is_requested_again(brokers: ScriptedCluster, cluster: Cluster, step: Step) -> None:
    brokers.script(MetadataRequest, step, step)
    assert set(cluster.metadata(["t"]).brokers) == {1, 2, 3}


# --- leaders


def test_leaders_come_from_memory_until_they_are_marked_stale(brokers: ScriptedCluster, cluster: Cluster) -> None:
    assert cluster.leader(T0).node.node_id == 1
    brokers.move_leader("t", 0, to=2)
    assert cluster.leader(T0).node.node_id == 1
    assert len(brokers.requests(MetadataRequest)) == 1
    cluster.mark_stale("t")
    assert cluster.known_leader(T0) is None
    assert cluster.leader(T0).node.node_id == 2
    assert cluster.known_leader(T0) == cluster.leader(T0)


def test_old_metadata_is_requested_again(brokers: ScriptedCluster) -> None:
    with Cluster(brokers.config(metadata_max_age_ms=0)) as cluster:
        cluster.topic("t")
        cluster.topic("t")
    assert len(brokers.requests(MetadataRequest)) == 2


def test_an_election_is_waited_for(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.move_leader("t", 0, to=-1)
    timer = threading.Timer(0.05, brokers.move_leader, ("t", 0, 3))
    timer.start()
    assert cluster.leader(T0).node.node_id == 3
    timer.join()


def test_only_unknown_topic_errors_count_as_tries_of_an_unknown_topic(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    unknown, election = Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Refuse(ErrorCode.LEADER_NOT_AVAILABLE)
    steps = [election] * UNKNOWN_TOPIC_TRIES + [unknown] * (UNKNOWN_TOPIC_TRIES - 1)
    brokers.script(MetadataRequest, *steps)
    assert cluster.leader(T0).node.node_id == 1
    brokers.script(MetadataRequest, *steps)
    assert len(cluster.metadata(["t"]).topics["t"].partitions) == 3


def test_a_partition_without_a_leader_is_named_when_time_is_up(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.move_leader("t", 0, to=-1)
    with pytest.raises(KafkaError, match=r"t-0 has no leader.*\(LEADER_NOT_AVAILABLE, "):
        cluster.leader(T0, Deadline.after_ms(1_000))


def test_a_partition_beyond_the_last_is_an_error_at_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with pytest.raises(NoSuchPartition, match="t-7 does not exist: the topic has 3 partitions"):
        cluster.leaders([T0, TopicPartition("t", 7)])
    assert len(brokers.requests(MetadataRequest)) == 1


def test_many_topics_take_one_metadata_request(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for number in range(20):
        brokers.state.create(f"topic-{number}", 3)
    wanted = [TopicPartition(f"topic-{number}", part) for number in range(20) for part in range(3)]
    assert list(cluster.leaders(wanted)) == wanted
    assert len(brokers.requests(MetadataRequest)) == 1


# --- dead and broken brokers


def test_dead_bootstrap_servers_are_skipped(brokers: ScriptedCluster, dead_ports: list[int]) -> None:
    dead = ",".join(f"127.0.0.1:{port}" for port in dead_ports)
    with Cluster(brokers.config(bootstrap_servers=f"{dead},{brokers.bootstrap_servers}")) as cluster:
        assert set(cluster.metadata(["t"]).topics) == {"t"}


def test_broker_unreachable_names_every_address_in_bounded_time(
    brokers: ScriptedCluster, dead_ports: list[int]
) -> None:
    servers = ",".join(f"127.0.0.1:{port}" for port in dead_ports)
    with Cluster(brokers.config(bootstrap_servers=servers)) as cluster, pytest.raises(BrokerUnreachable) as caught:
        cluster.metadata(timeout_ms=1_000)
    assert {address.port for address in caught.value.tried} == set(dead_ports)
    for port in dead_ports:
        assert f"127.0.0.1:{port}: connection refused" in str(caught.value)
    assert "for Metadata" in str(caught.value)


def test_the_advice_follows_the_last_reason(brokers: ScriptedCluster) -> None:
    def close_first_connection(server: socket.socket) -> None:
        with server, server.accept()[0]:
            pass

    server = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{server.getsockname()[1]}"
    config = brokers.config(bootstrap_servers=address, default_api_timeout_ms=1_000)
    accepting = threading.Thread(target=close_first_connection, args=(server,))
    accepting.start()
    with Cluster(config) as cluster, pytest.raises(BrokerUnreachable) as caught:
        cluster.metadata()
    accepting.join()
    assert str(caught.value) == (
        f"no broker could be reached for Metadata ({address}: connection refused); check kafka.bootstrap.servers"
    )


def test_servers_that_were_not_tried_are_named_when_time_is_up(brokers: ScriptedCluster) -> None:
    with hanging_server() as first_server:
        servers = f"{first_server},{brokers.bootstrap_servers}"
        with Cluster(brokers.config(bootstrap_servers=servers)) as cluster, pytest.raises(BrokerUnreachable) as caught:
            cluster.metadata(timeout_ms=100)
    first, *left = caught.value.tried.values()
    assert re.fullmatch(r"no connection within (100|\d0) ms", first)
    assert left == ["not tried, no time was left"] * len(brokers.bootstrap_servers.split(","))


@pytest.mark.parametrize("step", [*BROKEN_CONNECTIONS, Raw(b"\0\0\0\1x")], ids=str)
def test_a_broker_with_a_broken_connection_is_skipped(brokers: ScriptedCluster, cluster: Cluster, step: Step) -> None:
    for _ in range(3):
        brokers.script(MetadataRequest, step)
        assert set(cluster.metadata(["t"]).topics) == {"t"}


def test_a_silent_broker_is_skipped_after_the_request_timeout(brokers: ScriptedCluster) -> None:
    brokers.script(MetadataRequest, Silent(), Silent())
    with Cluster(brokers.config(request_timeout_ms=500)) as cluster:
        assert set(cluster.metadata(["t"]).topics) == {"t"}


def test_brokers_that_all_went_away_are_found_again(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.metadata(["t"])
    for broker in brokers.brokers.values():
        broker.stop()
    timer = threading.Timer(0.05, brokers.brokers[2].start)
    timer.start()
    assert set(cluster.metadata(["t"]).topics) == {"t"}
    timer.join()


def test_send_asks_the_broker_that_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for node in (1, 2, 3, 2):
        assert cluster.send(node, ASK_FOR_ID).producer_id > 0
    assert brokers.nodes(InitProducerIdRequest) == [1, 2, 3, 2]
    assert brokers.brokers[2].open_connections <= 2, "connections are kept"


@pytest.mark.parametrize("step", BROKEN_CONNECTIONS, ids=str)
def test_send_retries_when_the_connection_breaks(brokers: ScriptedCluster, cluster: Cluster, step: Step) -> None:
    brokers.script(InitProducerIdRequest, step, step)
    assert cluster.send(2, ASK_FOR_ID).producer_id > 0
    assert set(brokers.nodes(InitProducerIdRequest)) == {2}


def test_the_log_has_ever_fewer_lost_connections_of_an_outage_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_kafka_native")
    with ScriptedCluster(topics={"t": 1}) as brokers, Cluster(brokers.config()) as cluster:
        brokers.script(MetadataRequest, *[Drop()] * 3)
        cluster.metadata(["t"])
        brokers.script(MetadataRequest, *[Drop()] * 2)
        cluster.metadata(["t"])
        address = brokers.brokers[1].address
    first, second = "trying again for N s", "trying again for N s; 2 failures in a row"
    lines = [re.sub(r"^.*trying again for \S+ s", "trying again for N s", text) for text in caplog.messages]
    ends = [f"{address}: a response was received; failures before: {number}" for number in (3, 2)]
    assert lines == [first, second, ends[0], first, second, ends[1]]


def test_send_once_does_not_retry(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(InitProducerIdRequest, Drop())
    with pytest.raises(ConnectionLost):
        cluster.send_once(2, ASK_FOR_ID, Deadline.after_ms(60_000))


def test_send_follows_a_broker_to_its_new_address(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.metadata()
    brokers.brokers[2].move()
    assert cluster.send(2, ASK_FOR_ID).producer_id > 0


def test_send_waits_for_a_broker_that_restarts(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.metadata()
    broker = brokers.brokers[2]
    broker.stop()
    broker.is_listed = False

    def restart() -> None:
        broker.start()
        broker.is_listed = True

    timer = threading.Timer(0.05, restart)
    timer.start()
    assert cluster.send(2, ASK_FOR_ID).producer_id > 0
    timer.join()


def test_a_broker_that_stays_away_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with pytest.raises(BrokerNotAvailable, match="broker 9 is not in the cluster"):
        cluster.send(9, ASK_FOR_ID, deadline=Deadline.after_ms(1_000))
    cluster.metadata()
    port = brokers.brokers[2].port
    brokers.brokers[2].stop()
    with pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{port}: connection refused"):
        cluster.send(2, ASK_FOR_ID, deadline=Deadline.after_ms(1_000))


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (
            "no-such-host.invalid",
            r"the host name is unknown \(.*\); broker 7 has it in advertised\.listeners, where clients need names that",
        ),
        ("127.0.0.1", r"connection refused; broker 7 has it in advertised\.listeners\)"),
    ],
)
def test_an_advertised_address_that_cannot_be_reached_is_named_as_such(
    cluster: Cluster, dead_ports: list[int], host: str, reason: str
) -> None:
    node = Node(node_id=7, host=host, port=dead_ports[0])
    with pytest.raises(BrokerUnreachable, match=rf"{host}:{dead_ports[0]}: {reason}"):
        cluster.borrow(node, Deadline.after_ms(60_000))


def test_a_silent_broker_is_named_when_time_is_up(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(InitProducerIdRequest, Silent())
    with pytest.raises(RequestTimeout, match=f"127.0.0.1:{brokers.brokers[2].port}: no response to InitProducerId"):
        cluster.send(2, ASK_FOR_ID, deadline=Deadline.after_ms(1_000))


# --- sharing


def test_threads_do_not_wait_for_each_other(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.metadata()
    others_are_done = threading.Event()
    brokers.script(InitProducerIdRequest, Held(others_are_done))
    slow = threading.Thread(target=cluster.send, args=(1, ASK_FOR_ID))
    slow.start()
    eventually(lambda: brokers.requests(InitProducerIdRequest), IsTrueLike)
    for _ in range(5):
        cluster.send(1, ASK_FOR_ID)
    others_are_done.set()
    slow.join()


def test_many_threads_share_one_cluster(brokers: ScriptedCluster, cluster: Cluster) -> None:
    found: list[int] = []

    def work(number: int) -> None:
        for round_number in range(10):
            found.append(cluster.send((number + round_number) % 3 + 1, ASK_FOR_ID).producer_id)
            cluster.mark_stale("t")
            cluster.leader(T0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 60


def test_a_closed_cluster_may_be_used_again(cluster: Cluster) -> None:
    cluster.metadata(["t"])
    cluster.close()
    assert cluster.known_leader(T0) is None
    assert cluster.leader(T0).node.node_id == 1
