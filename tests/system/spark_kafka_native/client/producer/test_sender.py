import select
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from dirty_equals import IsInt

from broker_embedded.testing.refusals import refusal
from spark_kafka_native.client import pausable_clock
from spark_kafka_native.client.errors import ProduceError
from spark_kafka_native.client.producer.partition_queue import OutgoingBatch, PartitionQueue
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native.protocol.messages.metadata import MetadataRequest
from spark_kafka_native.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from spark_kafka_native.records.arrow.encode import EncodedBatch
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import KAFKA_0_11, KAFKA_2_1, KAFKA_4_3, ScriptedCluster, Versions
from tests.support.scripted.responses import respond
from tests.support.scripted.sender_driver import PARTITIONS, SenderDriver, T, names, write_and_check
from tests.support.scripted.steps import Drop, HalfFrame, Refuse, Respond, Silent, Step
from tests.support.waiting import eventually


def test_batches_arrive_in_order_several_partitions_to_a_request(driver: SenderDriver) -> None:
    write_and_check(driver)
    requests = driver.brokers.requests(ProduceRequest)
    assert len(requests) == driver.sender.metrics.requests == 60, "two partitions of each broker go together"
    assert driver.sender.metrics.retries == 0


@pytest.mark.parametrize(
    ("versions", "spoken"),
    [(KAFKA_0_11, (3, 0)), (KAFKA_2_1, (7, 1)), (KAFKA_4_3, (13, 5))],
    ids=["0.11", "2.1", "4.3"],
)
def test_every_release_of_brokers_gets_its_newest_version(versions: Versions, spoken: tuple[int, int]) -> None:
    with ScriptedCluster(topics={"t": PARTITIONS}, versions=versions, topic_ids=versions is KAFKA_4_3) as brokers:
        with SenderDriver(brokers) as driver:
            write_and_check(driver)
        found = {type(request): version for _, request, version in brokers.received}
    assert (found[ProduceRequest], found[InitProducerIdRequest]) == spoken


def test_topics_without_ids_go_by_name_to_new_brokers_too() -> None:
    with ScriptedCluster(topics={"t": PARTITIONS}, topic_ids=False) as brokers:
        with SenderDriver(brokers) as driver:
            write_and_check(driver)
        assert {version for _, request, version in brokers.received if isinstance(request, ProduceRequest)} == {12}


def test_no_more_requests_are_in_flight_than_allowed(driver: SenderDriver) -> None:
    driver.add(0, "first").finish()
    driver.brokers.script(ProduceRequest, *[Silent()] * 10)
    driver.add(0, *names(0))
    for _ in range(100):
        driver.sender.pump(wait=False)
    (broker,) = driver.sender._connections.values()
    assert len(broker.requests) == 5


def test_requests_do_not_exceed_their_size(brokers: ScriptedCluster) -> None:
    with SenderDriver(brokers, max_request_size=10_000) as driver:
        for number in range(20):
            for partition in range(PARTITIONS):
                driver.add(partition, f"{number:04000d}")
        driver.finish()
    for request in brokers.requests(ProduceRequest):
        parts = [part for topic in request.topic_data for part in topic.partition_data]
        assert sum(len(part.records) for part in parts) <= 10_000
        assert len(parts) <= 2
    assert all(len(driver.stored(partition)) == 20 for partition in range(PARTITIONS))


def test_produce_requests_have_acks_and_timeout(brokers: ScriptedCluster) -> None:
    with SenderDriver(brokers, acks="1", request_timeout_ms=31_234) as driver:
        driver.add(0, "a").finish()
    (request,) = brokers.requests(ProduceRequest)
    assert (request.acks, request.timeout_ms, request.transactional_id) == (1, 31_234, None)
    assert not brokers.requests(InitProducerIdRequest)
    assert brokers.partition("t").headers()[0].producer_id == -1


def test_acks_0_waits_for_no_response_and_keeps_the_order(brokers: ScriptedCluster) -> None:
    with SenderDriver(brokers, acks="0") as driver:
        for number in range(30):
            for partition in range(PARTITIONS):
                driver.add(partition, names(partition)[number])
        driver.finish()
    eventually(lambda: [len(driver.stored(partition)) for partition in range(PARTITIONS)], [IsInt(ge=30)] * PARTITIONS)
    for partition in range(PARTITIONS):
        assert driver.stored(partition) == names(partition)


# --- sequences and epochs


def epochs(driver: SenderDriver, partition: int = 0) -> list[tuple[int, int]]:
    return [
        (header.producer_epoch, header.base_sequence) for header in driver.brokers.partition("t", partition).headers()
    ]


def test_a_broker_that_lost_acknowledged_records_is_written_to_in_a_new_epoch(driver: SenderDriver) -> None:
    driver.add(0, "a", "b").finish()
    partition = driver.brokers.partition("t")
    producer_id, (epoch, _) = next(iter(partition.sequences.items()))
    partition.sequences[producer_id] = (epoch, 0)  # an unclean election: b is gone
    driver.add(0, "c", "d").finish()
    assert driver.stored(0) == ["a", "b", "c", "d"]
    assert epochs(driver) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_broker_that_forgot_the_producer_is_written_to_in_a_new_epoch(driver: SenderDriver) -> None:
    driver.add(0, "a").finish()
    partition = driver.brokers.partition("t")
    partition.sequences.clear()
    partition.lost_producers = True
    driver.add(0, "b", "c").finish()
    assert driver.stored(0) == ["a", "b", "c"]
    assert epochs(driver) == [(0, 0), (1, 0), (1, 1)]


def test_a_gap_that_a_new_epoch_does_not_close_is_an_error(driver: SenderDriver) -> None:
    driver.brokers.script(ProduceRequest, *[Refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)] * 5)
    driver.add(0, "a")
    with pytest.raises(ProduceError, match="t-0") as caught:
        driver.finish()
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert len(driver.brokers.requests(ProduceRequest)) == 2


def test_another_producer_id_is_requested_after_the_last_epoch(driver: SenderDriver) -> None:
    driver.add(0, "a").finish()
    queue = driver.sender._queues[T[0]]
    assert queue.identity is not None
    first = queue.identity.producer_id
    queue.identity = type(queue.identity)(first, 2**15 - 1)
    driver.brokers.script(ProduceRequest, Refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    driver.add(0, "b").finish()
    assert driver.stored(0) == ["a", "b"]
    ids = [header.producer_id for header in driver.brokers.partition("t").headers()]
    assert ids[0] == first != ids[1]


@pytest.mark.parametrize(
    "step",
    [Drop(), HalfFrame(), Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)],
    ids=str,
)
def test_init_producer_id_is_retried(driver: SenderDriver, step: Step) -> None:
    driver.brokers.script(InitProducerIdRequest, step, step)
    driver.add(0, "a").finish()
    assert driver.stored(0) == ["a"]


def test_refused_producer_ids_name_enable_idempotence(driver: SenderDriver) -> None:
    driver.brokers.script(InitProducerIdRequest, Refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    driver.add(0, "a")
    with pytest.raises(ProduceError, match=r"enable.idempotence=false") as caught:
        driver.finish()
    assert caught.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# --- batches that are too large


def test_a_batch_too_large_for_the_broker_is_split(driver: SenderDriver) -> None:
    def limit(request: ProduceRequest) -> ProduceResponse:
        """What a broker with max.message.bytes = 130 does."""
        parts = [part for topic in request.topic_data for part in topic.partition_data]
        largest = max(len(part.records) for part in parts)  # type: ignore[arg-type]  # the request has records
        if largest > 130:
            response = refusal(request, 13, ErrorCode.MESSAGE_TOO_LARGE)
        else:
            response = respond(request, 13, driver.brokers.state, 1, driver.brokers.ports)
        assert isinstance(response, ProduceResponse)
        return response

    driver.brokers.script(ProduceRequest, *[Respond(limit)] * 50)
    values = [b"%d" % number * 20 for number in range(8)]
    for records in ([values[0]], values[1:7], [values[7]]):
        encoded = EncodedBatch(buffer=batch_of(records), records_count=len(records), first_row=0)
        driver.sender.add(T[0], OutgoingBatch(encoded=encoded, expires_at=driver.sender.now() + driver.seconds))
    driver.finish()
    assert [value.encode() for value in driver.stored(0)] == values
    assert len(driver.brokers.partition("t").batches) > 4
    assert driver.sender.buffered_bytes == 0


def test_a_single_record_too_large_for_the_broker_is_an_error(driver: SenderDriver) -> None:
    driver.brokers.script(ProduceRequest, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
    driver.add(0, "a", "b", "c")
    with pytest.raises(ProduceError, match=r"max.message.bytes") as caught:
        driver.finish()
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert caught.value.partition == T[0]


# --- the end of patience


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


def test_an_error_that_is_not_retriable_has_the_brokers_message(driver: SenderDriver) -> None:
    def refuse(request: ProduceRequest) -> ProduceResponse:
        bad = BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="compacted topics need keys")
        part = PartitionProduceResponse(index=0, error_code=ErrorCode.INVALID_RECORD, record_errors=(bad,))
        topic_id = request.topic_data[0].topic_id
        return ProduceResponse(responses=(TopicProduceResponse(topic_id=topic_id, partition_responses=(part,)),))

    driver.brokers.script(ProduceRequest, Respond(refuse))
    driver.add(0, "a")
    with pytest.raises(ProduceError) as caught:
        driver.finish()
    assert (caught.value.partition, caught.value.code) == (T[0], ErrorCode.INVALID_RECORD)
    assert "compacted topics need keys" in str(caught.value)
    assert caught.value.unacknowledged == 1


def test_an_error_says_nothing_of_batches_that_were_acknowledged_before(driver: SenderDriver) -> None:
    driver.brokers.script(ProduceRequest, Refuse(ErrorCode.NOT_ENOUGH_REPLICAS))
    driver.add(0, "a").finish()
    driver.brokers.script(ProduceRequest, Refuse(ErrorCode.INVALID_RECORD))
    driver.add(0, "b")
    with pytest.raises(ProduceError, match=r"\(INVALID_RECORD, ") as caught:
        driver.finish()
    assert "fewer replicas" not in str(caught.value)


def test_retries_may_be_bounded(brokers: ScriptedCluster) -> None:
    with SenderDriver(brokers, retries=2) as driver:
        brokers.script(ProduceRequest, *[Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)] * 9)
        driver.add(0, "a")
        with pytest.raises(ProduceError, match=r"kafka\.retries = 2 are used up") as caught:
            driver.finish()
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(brokers.requests(ProduceRequest)) == 3


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), "fewer replicas are in sync"),
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


def test_metadata_does_not_go_to_a_broker_whose_produce_timed_out(brokers: ScriptedCluster) -> None:
    brokers.script(ProduceRequest, Silent(), broker=2)
    with SenderDriver(brokers, bootstrap_servers=str(brokers.brokers[2].address)) as driver:
        driver.add(1, "a")
        while not brokers.requests(ProduceRequest):
            driver.sender.pump(wait=False)
        soon = Deadline.after_ms(60_000)
        driver.cluster.give_back(driver.cluster.borrow(driver.cluster.node(2, soon), soon))  # has an idle one: is first
        driver.skip(30)
        pump_to_first_error(driver, 1)
        driver.cluster.metadata([])
        assert brokers.nodes(MetadataRequest)[-1] != 2
        driver.finish()


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
                select.select([driver.sender._connections[1].connection], [], [])
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


def test_zstd_is_not_sent_to_brokers_that_do_not_know_it() -> None:
    with (
        ScriptedCluster(topics={"t": PARTITIONS}, versions=KAFKA_0_11) as brokers,
        SenderDriver(brokers, compression_type="zstd") as driver,
    ):
        driver.add(0, "a")
        with pytest.raises(
            ProduceError, match=r"older than 2.1 and cannot take kafka\.compression\.type = zstd"
        ) as caught:
            driver.finish()
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_brokers_without_producer_ids_can_be_written_to_without_idempotence() -> None:
    """Redpanda with enable_idempotence=false."""
    versions = {key: versions for key, versions in KAFKA_0_11.items() if key != InitProducerIdRequest.api_key}
    with ScriptedCluster(topics={"t": PARTITIONS}, versions=versions) as brokers:
        with SenderDriver(brokers) as driver:
            driver.add(0, "a")
            with pytest.raises(ProduceError, match=r"no such API; try kafka\.enable\.idempotence=false;"):
                driver.finish()
        with SenderDriver(brokers, enable_idempotence="false") as driver:
            driver.add(0, "a").finish()
            assert driver.stored(0) == ["a"]


def test_a_broker_too_old_to_write_to_is_named() -> None:
    versions = {**KAFKA_0_11, ProduceRequest.api_key: (0, 2)}
    del versions[InitProducerIdRequest.api_key]
    with ScriptedCluster(topics={"t": PARTITIONS}, versions=versions) as brokers, SenderDriver(brokers) as driver:
        driver.add(0, "a")
        with pytest.raises(ProduceError, match=r"Produce: .* has versions 0-2; writing needs Kafka 0\.11 or newer;"):
            driver.finish()


def test_a_broker_without_a_version_for_topics_without_ids_is_named() -> None:
    versions = {**KAFKA_0_11, ProduceRequest.api_key: (13, 13)}
    with ScriptedCluster(topics={"t": PARTITIONS}, versions=versions) as brokers, SenderDriver(brokers) as driver:
        driver.add(0, "a")
        with pytest.raises(ProduceError, match=r"this client has versions 3-12, the broker has versions 13-13"):
            driver.finish()
