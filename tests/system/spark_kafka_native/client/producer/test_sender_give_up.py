"""A sender's caller gets the offsets of acknowledged batches, and can give up one partition after its error."""

import select
import socket

import pytest

from spark_kafka_native._client.errors import DeliveryTimeout, ProduceError
from spark_kafka_native._client.producer.sender import Sender
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.sender_driver import SenderDriver, T
from tests.support.scripted.steps import Drop, Refuse, Respond, Silent


def refuse_partition(number: int) -> Respond:
    """A response in which one partition of a request is refused for good, and the others are written at offset 7."""

    def respond(request: ProduceRequest) -> ProduceResponse:
        return ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=tuple(
                        PartitionProduceResponse(
                            index=part.index,
                            error_code=ErrorCode.INVALID_RECORD if part.index == number else ErrorCode.NONE,
                            base_offset=-1 if part.index == number else 7,
                        )
                        for part in topic.partition_data
                    ),
                )
                for topic in request.topic_data
            )
        )

    return Respond(respond)


def test_acknowledgements_have_the_records_of_each_batch_and_their_offsets(driver: SenderDriver) -> None:
    driver.add_batch(0, "a", "b").add_batch(0, "c").add_batch(1, "d").finish()
    found = sorted(each[:4] for each in driver.acknowledged)
    assert found == [(T[0], 0, 2, 0), (T[0], 2, 1, 2), (T[1], 0, 1, 0)]


def test_acknowledgements_of_a_split_batch_have_the_records_of_the_pieces(driver: SenderDriver) -> None:
    values = [f"{number}" * 30 for number in range(10, 18)]
    driver.brokers.partition("t").max_message_bytes = 250
    driver.add_batch(0, "first").add_batch(0, *values).finish()
    assert driver.stored(0) == ["first", *values]
    assert len(driver.acknowledged) > 2
    assert all(each.first_record == each.base_offset for each in driver.acknowledged)
    assert sum(each.records_count for each in driver.acknowledged) == 9


def test_a_batch_that_was_written_before_has_no_offset(driver: SenderDriver) -> None:
    driver.add(0, "a").finish()
    driver.brokers.script(ProduceRequest, Drop(applied=True))
    driver.add(0, "b").finish()
    assert driver.stored(0) == ["a", "b"]
    assert [each[1:4] for each in driver.acknowledged] == [(0, 1, 0), (1, 1, -1)]


def test_an_error_of_one_partition_comes_after_the_other_responses(brokers: ScriptedCluster) -> None:
    with SenderDriver(brokers) as driver:
        for partition in (0, 2):  # both of broker 1, so in one request
            driver.add(partition, "a")
        driver.brokers.script(ProduceRequest, refuse_partition(0))
        with pytest.raises(ProduceError, match=r"t-0: .*INVALID_RECORD"):
            driver.finish()
        assert [each[:4] for each in driver.acknowledged] == [(T[2], 0, 1, 7)]
        assert driver.sender.buffered_records == 1
        assert driver.sender.give_up(T[0]) == 1
        assert (driver.sender.buffered_records, driver.sender.buffered_bytes) == (0, 0)


def test_other_partitions_continue_and_later_batches_are_written_in_a_new_epoch(driver: SenderDriver) -> None:
    driver.add(0, "a").finish()
    driver.brokers.script(ProduceRequest, Refuse(ErrorCode.INVALID_RECORD))
    driver.add(0, "refused", "dropped")
    with pytest.raises(ProduceError):
        driver.finish()
    dropped = driver.sender.give_up(T[0])
    assert dropped == 2
    driver.add(0, "b").add(1, "c").finish()
    assert driver.stored(0)[0] == "a"
    assert driver.stored(0)[-1] == "b"
    assert "refused" not in driver.stored(0)
    assert driver.stored(1) == ["c"]
    header = driver.brokers.partition("t").headers()[-1]
    assert (header.producer_epoch, header.base_sequence) == (1, 0)
    assert driver.acknowledged[-1].first_record == 0, "records are counted from the first one after give_up"


@pytest.mark.parametrize("applied", [True, False], ids=["written", "not written"])
def test_a_batch_without_a_response_is_not_written_after_later_ones(brokers: ScriptedCluster, applied: bool) -> None:
    with SenderDriver(brokers, delivery_timeout_ms=60_000) as driver:
        driver.add(0, "a").finish()
        driver.brokers.script(ProduceRequest, Silent(applied=applied))
        driver.add(0, "b")
        driver.sender.pump(wait=False)
        driver.skip(61)
        with pytest.raises(DeliveryTimeout, match="t-0"):
            driver.finish()
        driver.sender.give_up(T[0])
        driver.add(0, "c").finish()
        assert driver.stored(0) == (["a", "b", "c"] if applied else ["a", "c"])


def test_give_up_of_a_partition_without_batches_drops_nothing(driver: SenderDriver) -> None:
    assert driver.sender.give_up(T[0]) == 0
    driver.add(0, "a").finish()
    assert driver.sender.give_up(T[0]) == 0
    driver.add(0, "b").finish()
    assert driver.stored(0) == ["a", "b"]
    assert [header.producer_epoch for header in driver.brokers.partition("t").headers()] == [0, 0]


def test_all_partitions_of_a_lost_connection_can_be_given_up_one_after_the_other(brokers: ScriptedCluster) -> None:
    with SenderDriver(brokers, retries=0) as driver:
        driver.add(0, "warm").add(2, "warm").finish()
        driver.brokers.script(ProduceRequest, Drop())
        driver.add(0, "a").add(2, "b")
        failed = []
        while driver.sender.buffered_records:
            try:
                driver.finish()
            except ProduceError as error:
                failed.append(error.partition)
                driver.sender.give_up(error.partition)
        assert sorted(failed) == [T[0], T[2]]
        driver.add(0, "c").add(2, "d").finish()
        assert (driver.stored(0), driver.stored(2)) == (["warm", "c"], ["warm", "d"])


def test_a_readable_wakeup_ends_the_wait(brokers: ScriptedCluster) -> None:
    reader, writer = socket.socketpair()
    with reader, writer, SenderDriver(brokers) as driver:
        driver.sender = Sender(driver.cluster, wakeup=reader.fileno())
        driver.brokers.script(ProduceRequest, Silent())
        driver.add(0, "a")
        driver.sender.pump(wait=False)
        writer.send(b"x")
        driver.sender.pump(wait=True)
        assert select.select([reader], [], [], 0)[0], "the byte is the caller's to read"
        assert driver.sender.buffered_records == 1


def test_a_batch_that_expires_before_the_one_in_front_of_it_is_found(driver: SenderDriver) -> None:
    driver.add(0, "a")
    driver.seconds = 10
    driver.add(0, "b")
    driver.skip(11)
    with pytest.raises(DeliveryTimeout, match="t-0"):
        driver.finish()
    assert driver.stored(0) == ["a"]
