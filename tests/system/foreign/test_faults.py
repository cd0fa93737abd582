import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from dirty_equals import IsFalseLike, IsInt

from broker_embedded.testing import EmbeddedBroker, ErrorCode, ManualClock
from tests.support.clients.long_lived import LONG_LIVED, SESSION_MS, LongLivedClient
from tests.support.waiting import eventually

for name in ("aiokafka", "confluent_kafka", "kafka"):
    pytest.importorskip(name, reason=f"{name} is not installed")

# kafka-python now and then drops a connection that was being made without closing it.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
SETTINGS = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}

each_client = pytest.mark.parametrize("client", LONG_LIVED, ids=lambda client: client.name)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 1}, settings=SETTINGS) as made:
        yield made


@each_client
def test_a_producer_finds_its_leader_again_and_writes_once(client: LongLivedClient, broker: EmbeddedBroker) -> None:
    with client.producer(broker.bootstrap_servers) as producer:
        assert producer.send("t", b"before") == [0]
        broker.forget_requests()
        fault = broker.faults.fail("Produce", NOT_LEADER, times=2, topic="t", partition=0)
        assert producer.send("t", b"x", b"y") == [1, 2]
        assert fault.is_spent
        assert len(broker.requests("Produce")) == 4
        assert broker.request_counts()["Metadata"] >= 1


@each_client
def test_a_connection_lost_after_the_write_does_not_duplicate_it(
    client: LongLivedClient, broker: EmbeddedBroker
) -> None:
    with client.producer(broker.bootstrap_servers) as producer:
        producer.send("t", b"a")
        with broker.faults.drop("Produce", when="after", times=1) as fault:
            producer.send("t", b"b")
            assert fault.is_spent
        with broker.faults.drop("Produce", when="before", times=1) as fault:
            producer.send("t", b"c")
            assert fault.is_spent
    with client.consumer(broker.bootstrap_servers, "t") as consumer:
        assert consumer.read(3) == [b"a", b"b", b"c"]


@each_client
def test_clients_continue_after_moved_leaders_and_paused_fetches(
    client: LongLivedClient, broker: EmbeddedBroker
) -> None:
    servers = broker.bootstrap_servers
    with client.producer(servers) as producer, client.consumer(servers, "t") as consumer:
        producer.send("t", b"0")
        assert consumer.read(1) == [b"0"]
        broker.faults.pause_fetches("t")
        producer.send("t", b"1")
        assert consumer.poll() == []
        broker.faults.move_leader("t", 0)
        broker.faults.resume_fetches("t")
        assert consumer.read(1) == [b"1"]
        broker.faults.fail("Fetch", ErrorCode.KAFKA_STORAGE_ERROR, NOT_LEADER, topic="t")
        assert producer.send("t", b"2") == [2]
        assert consumer.read(1) == [b"2"]


@each_client
def test_a_group_continues_after_its_coordinator_moved(client: LongLivedClient, broker: EmbeddedBroker) -> None:
    servers = broker.bootstrap_servers
    with client.producer(servers) as producer, client.consumer(servers, "t", "g") as consumer:
        producer.send("t", b"0")
        assert consumer.read(1) == [b"0"]
        broker.forget_requests()
        broker.faults.move_coordinator("g")
        consumer.commit()
        assert broker.request_counts()["FindCoordinator"] >= 1
        producer.send("t", b"1")
        assert consumer.read(1) == [b"1"]
        consumer.commit()
    with client.consumer(servers, "t", "g") as consumer, client.producer(servers) as producer:
        producer.send("t", b"2")
        assert consumer.read(1) == [b"2"]


@each_client
def test_a_group_session_ends_when_the_clock_passes_its_timeout(
    client: LongLivedClient, broker: EmbeddedBroker
) -> None:
    servers = broker.bootstrap_servers
    with client.producer(servers) as producer, client.consumer(servers, "t", "g") as consumer:
        producer.send("t", b"0")
        assert consumer.read(1) == [b"0"]
        consumer.commit()
        before = broker.request_counts()["JoinGroup"]
        broker.advance(SESSION_MS + 1)
        eventually(lambda: (consumer.poll(), broker.request_counts()["JoinGroup"]), (IsFalseLike, IsInt(gt=before)))
        producer.send("t", b"1")
        assert consumer.read(1) == [b"1"]


@each_client
@pytest.mark.embedded_broker(clock=ManualClock(), topics={"t": 1}, settings=SETTINGS)
def test_clients_work_with_a_clock_that_stands_still(client: LongLivedClient, embedded_broker: EmbeddedBroker) -> None:
    servers = embedded_broker.bootstrap_servers
    with ExitStack() as moving, client.producer(servers) as producer, client.consumer(servers, "t", "g") as consumer:
        for number in range(3):
            producer.send("t", b"%d" % number)
            assert consumer.read(1) == [b"%d" % number]
            consumer.commit()
            embedded_broker.advance(seconds=1)
        joins = embedded_broker.request_counts()["JoinGroup"]
        consumer.poll()
        assert embedded_broker.request_counts()["JoinGroup"] == joins
        # A fetch that is waiting would hold up the end for as long as the clock stands.
        end = threading.Event()
        mover = threading.Thread(target=keep_moving, args=(embedded_broker, end))
        mover.start()
        moving.callback(mover.join)
        moving.callback(end.set)


def keep_moving(broker: EmbeddedBroker, end: threading.Event) -> None:
    while not end.wait(0.01):
        broker.advance(100)


@each_client
def test_clients_continue_with_a_broker_that_was_killed(client: LongLivedClient, broker: EmbeddedBroker) -> None:
    servers = broker.bootstrap_servers
    with client.producer(servers) as producer, client.consumer(servers, "t") as consumer:
        for number in range(2):
            producer.send("t", b"%d" % number)
            broker.kill()
            broker.start()
            assert consumer.read(1) == [b"%d" % number]
