import functools
import itertools
from collections.abc import Callable
from random import Random

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.sender_driver import PARTITIONS, SenderDriver, names, write_and_check
from tests.support.scripted.steps import (
    Drop,
    HalfFrame,
    Pass,
    Raw,
    Refuse,
    Respond,
    Silent,
    Slow,
    Step,
    WrongCorrelation,
)
from tests.support.waiting import eventually

FAULTS: list[Step] = [
    Drop(),
    Drop(applied=True),
    HalfFrame(3),
    HalfFrame(20),
    WrongCorrelation(),
    Raw(b"\xff" * 12),
    Raw(b"\0\0\0\x0cGARBAGE-BYTE"),
    Slow(30),
    *[
        Refuse(code)
        for code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.CORRUPT_MESSAGE,
        )
    ],
    Respond(lambda _: ProduceResponse()),
]


@pytest.mark.parametrize("step", FAULTS, ids=str)
def test_faults_neither_lose_nor_repeat_nor_reorder(driver: SenderDriver, step: Step) -> None:
    driver.brokers.script(
        ProduceRequest, *itertools.islice(itertools.cycle([step, Pass(), step, step, Pass(), Pass(), Pass()]), 40)
    )
    write_and_check(driver)
    assert driver.sender.metrics.retries or isinstance(step, Slow)


def test_all_faults_one_after_the_other(driver: SenderDriver) -> None:
    driver.brokers.script(ProduceRequest, *[step for fault in FAULTS for step in (fault, Pass(), Pass())])
    write_and_check(driver)


@pytest.mark.parametrize("limit", [130, 500, 2_000])
def test_faults_while_batches_are_split(brokers: ScriptedCluster, limit: int) -> None:
    """Refused batches have up to four batches after them in flight, which the broker refuses as out of order."""
    random = Random(limit)
    for partition in range(PARTITIONS):
        brokers.partition("t", partition).max_message_bytes = limit
    with SenderDriver(brokers) as driver:
        brokers.script(ProduceRequest, *[step for fault in FAULTS for step in [fault, *[Pass()] * 12]])
        sent: list[list[str]] = [[] for _ in range(PARTITIONS)]
        for _ in range(20):
            for partition, values in enumerate(sent):
                batch = [f"{partition}.{len(values) + number}" for number in range(random.choice([1, 1, 2, 30, 300]))]
                driver.add_batch(partition, *batch)
                values.extend(batch)
        driver.finish()
        for partition, values in enumerate(sent):
            assert driver.stored(partition) == values
            assert all(header.size_in_bytes <= limit for header in brokers.partition("t", partition).headers())


@pytest.mark.parametrize("step", [Drop(), HalfFrame(3), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)], ids=str)
def test_without_idempotence_retries_do_not_reorder_either(brokers: ScriptedCluster, step: Step) -> None:
    with SenderDriver(brokers, acks="1") as driver:
        brokers.script(ProduceRequest, *itertools.islice(itertools.cycle([Pass(), Pass(), step]), 30))
        for number in range(30):
            driver.add(0, names(0)[number])
        driver.finish()
    assert list(dict.fromkeys(driver.stored(0))) == names(0)


def test_batches_without_a_response_are_sent_again_unchanged(brokers: ScriptedCluster) -> None:
    with SenderDriver(brokers, request_timeout_ms=500) as driver:
        brokers.script(ProduceRequest, Pass(), Silent(applied=True), Silent())
        write_and_check(driver)


def write_meanwhile(driver: SenderDriver, *events: Callable[[], object]) -> None:
    """Add to all partitions, with something happening to the brokers after each round, and find all of it, in order."""
    meanwhile = itertools.cycle(events)
    for number in range(30):
        for partition in range(PARTITIONS):
            driver.add(partition, names(partition)[number])
        driver.sender.pump(wait=False)
        next(meanwhile)()
    driver.finish()
    for partition in range(PARTITIONS):
        assert driver.stored(partition) == names(partition)


def test_leaders_that_move_all_the_time_are_followed(driver: SenderDriver) -> None:
    moves = [
        functools.partial(driver.brokers.move_leader, "t", partition, to=number)
        for number in (2, 1)
        for partition in range(PARTITIONS)
    ]
    write_meanwhile(driver, *moves)
    assert driver.sender.metrics.retries


def test_brokers_that_restart_while_batches_are_in_flight(brokers: ScriptedCluster) -> None:
    first, second = brokers.brokers[1], brokers.brokers[2]
    brokers.script(ProduceRequest, Silent(), Silent(applied=True), Pass(), Silent(), Pass(), Silent(), Pass())
    with SenderDriver(brokers, request_timeout_ms=1_000) as driver:  # for the silence of a broker that stays
        write_meanwhile(driver, first.stop, first.start, second.stop, second.start)
        assert driver.sender.metrics.retries


def test_an_idle_connection_that_the_broker_closed_is_replaced_without_a_retry(driver: SenderDriver) -> None:
    driver.add(0, "a").finish()
    driver.brokers.brokers[1].drop_connections()
    (broker,) = driver.sender._connections
    eventually(broker.connection.is_stale, True)
    driver.add(0, "b").finish()
    assert driver.stored(0) == ["a", "b"]
    assert driver.sender.metrics.retries == 0
