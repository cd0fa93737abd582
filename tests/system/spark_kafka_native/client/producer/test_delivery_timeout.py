import select
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from spark_kafka_native._client import pausable_clock
from spark_kafka_native._client.errors import ProduceError
from spark_kafka_native._client.producer.partition_queue import PartitionQueue
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.sender_driver import PARTITIONS, SenderDriver, T, names
from tests.support.scripted.steps import Drop, Refuse, Silent, Step


def pump_to_first_error(driver: SenderDriver, partition: int) -> None:
    while not driver.sender._queues[T[partition]].last_error:
        driver.sender.pump(wait=True)


def leave_little_time(driver: SenderDriver) -> None:
    """Let nearly all of delivery.timeout.ms be over."""
    driver.skip(driver.seconds - 0.2)


def test_a_pump_looks_at_no_deadline_before_the_first_one(
    driver: SenderDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer of many topics pumps at every send, with batches waiting in many partitions."""
    looked = 0
    expires_at = PartitionQueue.expires_at

    def counted(queue: PartitionQueue) -> float:
        nonlocal looked
        looked += 1
        return expires_at(queue)

    monkeypatch.setattr(PartitionQueue, "expires_at", counted)
    driver.brokers.script(ProduceRequest, *[Silent()] * 4)
    for partition in range(PARTITIONS):
        driver.add(partition, *names(partition))
    driver.sender.pump(wait=False)
    looked = 0
    for _ in range(100):
        driver.sender.pump(wait=False)
    assert looked == 0
    driver.skip(driver.seconds)
    with pytest.raises(ProduceError, match=r"kafka\.delivery\.timeout\.ms \(\d+ ms\) ended"):
        driver.sender.pump(wait=False)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), "(NOT_ENOUGH_REPLICAS, 19); 2 records"),
        (Drop(), "; Produce v13 has no response"),
        (Silent(), "no response to Produce within 30000 ms"),
    ],
    ids=["refused", "dropped", "silent"],
)
def test_a_batch_that_cannot_be_delivered_in_time_is_an_error_with_the_last_error(
    brokers: ScriptedCluster, step: Step, reason: str
) -> None:
    with SenderDriver(brokers, request_timeout_ms=30_000, delivery_timeout_ms=90_000) as driver:
        brokers.script(ProduceRequest, *[step] * 10_000)
        driver.add(1, "a", "b")
        while not brokers.requests(ProduceRequest):
            driver.sender.pump(wait=False)
        if isinstance(step, Silent):
            driver.skip(30)
        pump_to_first_error(driver, 1)
        leave_little_time(driver)
        with pytest.raises(
            ProduceError, match=r"t-1: kafka\.delivery\.timeout.ms \(90000 ms\) ended after \d+ attempts?, last"
        ) as caught:
            driver.finish()
    assert reason in str(caught.value)
    assert "timed out" not in str(caught.value)
    assert (caught.value.partition, caught.value.unacknowledged) == (T[1], 2)


def test_the_delivery_timeout_names_the_error_of_the_first_batch_not_of_those_after_it(
    brokers: ScriptedCluster,
) -> None:
    """A broker with a full disk refuses the first batch, and the next ones because the first one is missing."""
    long = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    with SenderDriver(brokers, delivery_timeout_ms=90_000, **long) as driver:
        driver.add(0, "a").finish()
        brokers.script(
            ProduceRequest, Refuse(ErrorCode.KAFKA_STORAGE_ERROR), *[Refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)] * 2
        )
        driver.add(0, "b", "c", "d")
        while len(brokers.requests(ProduceRequest)) < 4 or driver.sender._queues[T[0]].in_flight:
            driver.sender.pump(wait=True)
        driver.skip(driver.seconds + 1)
        with pytest.raises(ProduceError, match=r"after 1 attempt, last error: .*disk") as caught:
            driver.sender.pump(wait=False)
    assert caught.value.unacknowledged == 3


def test_the_delivery_timeout_names_an_unreachable_leader(brokers: ScriptedCluster) -> None:
    with SenderDriver(brokers) as driver:
        driver.add(0, "a").finish()
        port = brokers.brokers[1].port
        brokers.brokers[1].stop()
        driver.add(0, "b")
        pump_to_first_error(driver, 0)
        leave_little_time(driver)
        with pytest.raises(ProduceError, match=f"127.0.0.1:{port}"):
            driver.finish()
    assert driver.stored(0) == ["a"]


def test_a_partition_that_stays_without_a_leader_does_not_hold_up_the_others(brokers: ScriptedCluster) -> None:
    with SenderDriver(brokers) as driver:
        brokers.move_leader("t", 0, to=-1)
        driver.add(0, "a")
        driver.add(1, *names(1))
        while driver.sender.buffered_records > 1:
            driver.sender.pump(wait=True)
        pump_to_first_error(driver, 0)
        leave_little_time(driver)
        with pytest.raises(
            ProduceError, match=r"t-0: kafka\.delivery\.timeout\.ms .* last error: the partition has no leader"
        ) as caught:
            driver.finish()
    assert caught.value.unacknowledged == 1
    assert driver.stored(1) == names(1)


def test_metadata_does_not_go_to_a_broker_whose_produce_timed_out(brokers: ScriptedCluster) -> None:
    brokers.script(ProduceRequest, Silent(), broker=2)
    pause = {"retry_backoff_ms": 10_000, "retry_backoff_max_ms": 10_000}  # not over before the metadata is requested
    with SenderDriver(brokers, bootstrap_servers=str(brokers.brokers[2].address), **pause) as driver:
        driver.add(1, "a")
        while not brokers.requests(ProduceRequest):
            driver.sender.pump(wait=False)
        soon = Deadline.after_ms(60_000)
        driver.cluster.give_back(driver.cluster.borrow(driver.cluster.node(2, soon), soon))  # has an idle one: is first
        driver.skip(30)
        pump_to_first_error(driver, 1)
        driver.cluster.metadata([])
        assert brokers.nodes(MetadataRequest)[-1] != 2
        driver.skip(12)
        driver.finish()


def test_time_between_pumps_does_not_count(driver: SenderDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.add(0, *names(0, 12))
    driver.sender.pump(wait=False)
    an_hour_later = SimpleNamespace(monotonic=lambda: time.monotonic() + 3_600, sleep=time.sleep)
    monkeypatch.setattr(pausable_clock, "time", an_hour_later)
    driver.finish()
    assert driver.stored(0) == names(0, 12)
    assert driver.sender.metrics.retries == 0


def test_a_broker_that_takes_long_to_connect_to_does_not_make_others_look_late(
    brokers: ScriptedCluster, driver: SenderDriver
) -> None:
    driver.add(0, "a").finish()
    brokers.brokers[2].stop()
    with socket.create_server(("127.0.0.1", brokers.brokers[2].port), reuse_port=True) as slow:

        def hang_up_late() -> None:
            """Once the other broker has answered, and longer after than it may take to answer."""
            connection, _ = slow.accept()
            with connection:
                (answered,) = driver.sender._connections
                select.select([answered.connection], [], [])
                driver.skip(40)

        thread = threading.Thread(target=hang_up_late)
        thread.start()
        driver.add(0, "b")
        driver.add(1, "never")
        while driver.sender.buffered_records > 1:
            driver.sender.pump(wait=True)
        thread.join()
        assert driver.stored(0) == ["a", "b"]
        assert driver.sender.metrics.retries == 0
