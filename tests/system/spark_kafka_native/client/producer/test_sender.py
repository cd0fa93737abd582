import pytest
from dirty_equals import IsInt

from spark_kafka_native._client.errors import ProduceError
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.scripted.cluster import KAFKA_0_11, KAFKA_2_1, KAFKA_4_3, ScriptedCluster, Versions
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
    (broker,) = driver.sender._connections
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


def test_batches_too_large_for_the_broker_are_split(driver: SenderDriver) -> None:
    driver.brokers.partition("t").max_message_bytes = 130
    values = [str(number) * 20 for number in range(10, 42)]
    for first, end in ((0, 1), (1, 17), (17, 31), (31, 32)):
        driver.add_batch(0, *values[first:end])
    driver.finish()
    assert driver.stored(0) == values
    assert driver.sender.buffered_bytes == 0
    assert all(header.size_in_bytes <= 130 for header in driver.brokers.partition("t").headers())


def test_few_batches_are_refused_before_all_are_small_enough(driver: SenderDriver) -> None:
    driver.brokers.partition("t").max_message_bytes = 1_100
    values = [f"{number:0200d}" for number in range(200)]
    for first in range(0, 200, 100):
        driver.add_batch(0, *values[first : first + 100])
    driver.finish()
    assert driver.stored(0) == values
    assert driver.sender.metrics.retries == 5, "21 KB, and 10, 5, 2.6 and 1.3 KB, are refused once"
    assert sum(1 for _ in driver.brokers.partition("t").headers()) < 80, "of three records each, mostly"


def test_a_single_record_too_large_for_the_broker_is_an_error(driver: SenderDriver) -> None:
    driver.brokers.script(ProduceRequest, Refuse(ErrorCode.MESSAGE_TOO_LARGE))
    driver.add(0, "a", "b", "c")
    with pytest.raises(ProduceError, match=r"max.message.bytes") as caught:
        driver.finish()
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert caught.value.partition == T[0]


# --- errors that end it


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
