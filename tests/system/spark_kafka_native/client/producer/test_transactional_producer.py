import logging
from collections.abc import Iterator

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.errors import RecordTooLarge
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._client.transactions.ending import EndTxnOutcome, end_transaction
from spark_kafka_native._client.transactions.errors import (
    ProducerFailed,
    ProducerFenced,
    TransactionError,
    TransactionFailed,
    TransactionInDoubt,
)
from spark_kafka_native._client.transactions.requests import init_producer
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.arrow.encode import MeasuredRows
from spark_kafka_native._records.batch import BatchHeader, CompressionType
from tests.support.clients.native_transactions import valued
from tests.support.scripted.cluster import KAFKA_0_11, KAFKA_2_1, ScriptedCluster, Versions
from tests.support.scripted.fixtures import brokers_of_each_level
from tests.support.scripted.steps import Drop, HalfFrame, Refuse, Silent, Slow, Step

T = [TopicPartition("t", number) for number in range(4)]


brokers = brokers_of_each_level(brokers=2, topics={"t": 4})


@pytest.fixture
def cluster(brokers: ScriptedCluster) -> Iterator[Cluster]:
    timeouts = {"max_block_ms": 20_000, "request_timeout_ms": 20_000, "linger_ms": 0}
    with Cluster(brokers.config(**timeouts, transactional_id="sink", transaction_timeout_ms=7000)) as made:
        yield made


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[TransactionalProducer]:
    with TransactionalProducer(cluster) as made:
        yield made


def level(brokers: ScriptedCluster) -> int:
    return brokers.state.transactions.level


def kinds(brokers: ScriptedCluster) -> list[str]:
    """What was sent, but for questions about the cluster, each repetition once."""
    about_cluster = {"Metadata", "FindCoordinator"}
    names = [request.api_name for _, request, _ in brokers.received if request.api_name not in about_cluster]
    return [name for number, name in enumerate(names) if number == 0 or names[number - 1] != name]


def write(producer: TransactionalProducer, *values: str, partition: int | None = 0) -> None:
    producer.send("t", valued(values, partition))


def begin_with(producer: TransactionalProducer, *values: str, partition: int = 0) -> None:
    producer.begin()
    write(producer, *values, partition=partition)


def begin_with_a_row(producer: TransactionalProducer) -> None:
    begin_with(producer, "a")
    producer.flush()


def headers(brokers: ScriptedCluster, partition: int = 0) -> list[BatchHeader]:
    return brokers.partition("t", partition).headers()


def state_of(brokers: ScriptedCluster) -> str:
    return brokers.state.transactions.by_id["sink"].state


def test_partitions_are_added_before_they_are_written_to(
    brokers: ScriptedCluster, producer: TransactionalProducer
) -> None:
    producer.begin()
    for partition in range(4):
        write(producer, "a", partition=partition)
    producer.flush()
    write(producer, "b")
    producer.commit()
    assert state_of(brokers) == "CompleteCommit"
    assert all(header.is_transactional for partition in range(4) for header in headers(brokers, partition))
    if level(brokers) == 1:
        assert kinds(brokers)[:3] == ["InitProducerId", "AddPartitionsToTxn", "Produce"]
        requests = brokers.requests(AddPartitionsToTxnRequest)
        added = [part for request in requests for topic in request.v3_and_below_topics for part in topic.partitions]
        assert sorted(added) == [0, 1, 2, 3], "each of them once"
    else:
        assert kinds(brokers) == ["InitProducerId", "Produce", "EndTxn"]
    assert {request.transactional_id for request in brokers.requests(ProduceRequest)} == {"sink"}


def test_all_partitions_that_wait_are_added_at_once(brokers: ScriptedCluster) -> None:
    with Cluster(brokers.config(linger_ms=60_000)) as cluster, TransactionalProducer(cluster, "sink") as producer:
        producer.begin()
        for partition in range(4):
            write(producer, "a", partition=partition)
        producer.commit()
    assert len(brokers.requests(AddPartitionsToTxnRequest)) == (1 if level(brokers) == 1 else 0)


def test_request_versions_depend_on_transaction_version(
    brokers: ScriptedCluster, producer: TransactionalProducer
) -> None:
    begin_with(producer, "a")
    producer.commit()
    found = {type(request): version for _, request, version in brokers.received}
    assert found[EndTxnRequest] == (4 if level(brokers) == 1 else 5)
    assert found[ProduceRequest] == (11 if level(brokers) == 1 else 13)
    (init,) = brokers.requests(InitProducerIdRequest)
    assert (init.transactional_id, init.transaction_timeout_ms) == ("sink", 7000)


@pytest.mark.parametrize("versions", [KAFKA_0_11, KAFKA_2_1], ids=["0.11", "2.1"])
def test_old_brokers_have_transactions_too(versions: Versions) -> None:
    with (
        ScriptedCluster(topics={"t": 4}, versions=versions, topic_ids=False) as brokers,
        Cluster(brokers.config()) as cluster,
        TransactionalProducer(cluster, "sink") as producer,
    ):
        for end in (producer.commit, producer.abort, producer.commit):
            begin_with(producer, "a", partition=1)
            producer.flush()
            end()
        assert len(headers(brokers, 1)) == 3


def test_batches_that_are_encoded_already_are_part_of_the_transaction(
    brokers: ScriptedCluster, producer: TransactionalProducer
) -> None:
    for ending in (producer.abort, producer.commit):
        producer.begin()
        batches = MeasuredRows(valued(["a"], None), 0).encode(compression=CompressionType.GZIP, max_batch_bytes=1)
        producer.send_batches(T[0], batches)
        producer.flush()
        ending()
    assert [header.is_transactional for header in headers(brokers)] == [True, True]


def test_one_transaction_after_the_other(brokers: ScriptedCluster, producer: TransactionalProducer) -> None:
    for number in range(3):
        begin_with(producer, f"{number}.a")
        write(producer, f"{number}.b")
        producer.commit()
    found = [(header.producer_epoch, header.base_sequence) for header in headers(brokers)]
    if level(brokers) == 1:
        assert found == [(0, sequence) for sequence in range(6)]
    else:
        assert found == [(epoch, sequence) for epoch in range(3) for sequence in range(2)]
    assert len(brokers.requests(InitProducerIdRequest)) == 1
    assert producer.metrics.records == 6


def test_an_abort_ends_the_epoch_with_it(brokers: ScriptedCluster, producer: TransactionalProducer) -> None:
    begin_with_a_row(producer)
    producer.abort()
    assert state_of(brokers) == "CompleteAbort"
    begin_with(producer, "b")
    producer.commit()
    assert [(header.producer_epoch, header.base_sequence) for header in headers(brokers)] == [(0, 0), (1, 0)]
    claimed = [request.producer_epoch for request in brokers.requests(InitProducerIdRequest)]
    assert claimed == ([-1, 0] if level(brokers) == 1 else [-1])


def test_a_transaction_without_rows_sends_no_request(brokers: ScriptedCluster, producer: TransactionalProducer) -> None:
    producer.begin()
    assert producer.prepare().is_empty
    producer.commit()
    producer.begin()
    producer.send_offsets("g", {})
    producer.abort()
    assert kinds(brokers) == ["InitProducerId"]


def test_offsets_are_committed_with_the_transaction(brokers: ScriptedCluster, producer: TransactionalProducer) -> None:
    producer.begin()
    for number in range(2):
        producer.send_offsets("g", {T[number]: number + 5})
    producer.commit()
    assert {key[1]: value[0] for key, value in brokers.state.committed.items()} == {T[0]: 5, T[1]: 6}
    expected = ["AddOffsetsToTxn"] if level(brokers) == 1 else []
    assert kinds(brokers) == ["InitProducerId", *expected, "TxnOffsetCommit", "EndTxn"]


def test_a_handle_has_the_written_offsets(brokers: ScriptedCluster, producer: TransactionalProducer) -> None:
    brokers.partition("t", 1).log_end = 40
    begin_with(producer, "a", "b", partition=1)
    write(producer, "c", partition=0)
    producer.flush()
    write(producer, "d", partition=1)
    producer.send_offsets("g", {T[3]: 1})
    handle = producer.prepare()
    found = {part.partition: (part.from_offset, part.until_offset) for part in handle.partitions}
    assert found == {T[1]: (40, 43), T[0]: (0, 1)}
    assert (handle.groups, handle.timeout_ms, handle.transaction_version) == (("g",), 7000, level(brokers))
    assert handle.started_ms > 1_600_000_000_000
    assert handle.identity == producer.identity
    assert producer.prepare() == handle
    assert state_of(brokers) == "Ongoing"


def test_a_prepared_transaction_stays_open_after_close(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with TransactionalProducer(cluster) as producer:
        begin_with(producer, "a")
        handle = producer.prepare()
        for refused in (producer.begin, producer.flush):
            with pytest.raises(ValueError, match="while the producer is prepared"):
                refused()
    assert state_of(brokers) == "Ongoing"
    assert end_transaction(cluster, handle, commit=True).outcome is EndTxnOutcome.DONE
    assert state_of(brokers) == "CompleteCommit"


def test_leaving_the_block_aborts_an_open_transaction(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with TransactionalProducer(cluster) as producer:
        begin_with(producer, "a")
    assert state_of(brokers) == "CompleteAbort"
    with pytest.raises(ValueError, match="while the producer is closed"):
        producer.begin()
    producer.close()


def test_an_abort_waits_for_what_is_in_flight(brokers: ScriptedCluster, producer: TransactionalProducer) -> None:
    begin_with_a_row(producer)
    brokers.script(ProduceRequest, Slow(150))
    write(producer, "late")
    producer.abort()
    order = [request.api_name for _, request, _ in brokers.received]
    assert order.index("EndTxn") > len(order) - 1 - order[::-1].index("Produce")
    assert len(headers(brokers)) == 2, "the broker had it before the transaction ended"


@pytest.fixture
def hasty(brokers: ScriptedCluster) -> Iterator[TransactionalProducer]:
    timeouts = {"request_timeout_ms": 150, "max_block_ms": 10_000, "linger_ms": 0, "delivery_timeout_ms": 10_000}
    with Cluster(brokers.config(**timeouts)) as cluster, TransactionalProducer(cluster, "sink") as made:
        yield made


@pytest.mark.parametrize("step", [Drop(), Drop(applied=True), HalfFrame(), Silent(), Refuse(ErrorCode.NOT_COORDINATOR)])
@pytest.mark.parametrize("kind", [InitProducerIdRequest, AddPartitionsToTxnRequest, ProduceRequest, EndTxnRequest])
def test_lost_requests_and_responses_are_retried(
    brokers: ScriptedCluster, hasty: TransactionalProducer, kind: type[ProduceRequest], step: Step
) -> None:
    producer = hasty
    if kind is ProduceRequest and isinstance(step, Refuse):
        step = Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    brokers.script(kind, step)
    for number in range(2):
        begin_with(producer, f"{number}.a", partition=2)
        write(producer, f"{number}.b", partition=2)
        producer.commit()
        assert state_of(brokers) == "CompleteCommit"
    assert sum(header.records_count for header in headers(brokers, 2)) == 4
    assert producer.metrics.records == 4


def test_concurrent_transactions_is_retried_shortly(brokers: ScriptedCluster, producer: TransactionalProducer) -> None:
    busy = Refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    brokers.script(ProduceRequest if level(brokers) == 2 else AddPartitionsToTxnRequest, busy, busy)
    begin_with_a_row(producer)
    asked = len(brokers.requests(MetadataRequest))
    producer.commit()
    assert len(headers(brokers)) == 1
    assert len(brokers.requests(MetadataRequest)) == asked, "that is no matter of leaders"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, TransactionFailed),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TransactionFailed),
        (ErrorCode.TRANSACTION_ABORTABLE, TransactionFailed),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, TransactionFailed),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced),
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ErrorCode.INVALID_TXN_STATE, ProducerFailed),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ProducerFailed),
    ],
)
def test_refused_rows_leave_an_abort_or_nothing(
    brokers: ScriptedCluster, producer: TransactionalProducer, code: ErrorCode, expected: type[TransactionError]
) -> None:
    begin_with_a_row(producer)
    brokers.script(ProduceRequest, Refuse(code))
    write(producer, "b")
    with pytest.raises(expected, match="t-0") as caught:
        producer.flush()
    assert (type(caught.value), caught.value.code) == (expected, code)
    for refused in (producer.flush, producer.commit, producer.prepare, producer.begin):
        with pytest.raises(expected):
            refused()
    if expected is not TransactionFailed:
        with pytest.raises(expected):
            producer.abort()
        return
    producer.abort()
    assert state_of(brokers) == "CompleteAbort"
    begin_with(producer, "c")
    producer.commit()
    assert headers(brokers)[-1].producer_epoch == 1


def test_refused_rows_do_not_change_the_transaction(brokers: ScriptedCluster, producer: TransactionalProducer) -> None:
    begin_with(producer, "a")
    with pytest.raises(RecordTooLarge):
        write(producer, "x" * 2_000_000)
    with pytest.raises(KafkaError, match="has characters other than"):
        producer.send("no where", valued(["a"]))
    producer.commit()
    assert state_of(brokers) == "CompleteCommit"


def test_an_end_without_a_response_is_in_doubt(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with TransactionalProducer(cluster) as producer:
        begin_with(producer, "a")
        producer.prepare()
        brokers.script(EndTxnRequest, *[Silent(applied=True)] * 20)
        with pytest.raises(TransactionInDoubt, match="commit") as caught:
            producer.commit(timeout_ms=600)
        for refused in (producer.begin, producer.abort):
            with pytest.raises(TransactionInDoubt):
                refused()
    assert not any(not request.committed for request in brokers.requests(EndTxnRequest)), "leaving aborts nothing"
    with brokers.state.lock:
        brokers._scripts.clear()
    ending = end_transaction(cluster, caught.value.handle, commit=caught.value.commit)
    assert (ending.outcome, ending.committed) == (EndTxnOutcome.DONE, True)


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_fenced_producer_gets_producer_fenced_at_the_end(
    brokers: ScriptedCluster, producer: TransactionalProducer, commit: bool
) -> None:
    begin_with_a_row(producer)
    with brokers.state.lock:
        brokers.state.transactions.by_id["sink"].epoch += 5
    with pytest.raises(ProducerFenced, match="its coordinator now has sink in Ongoing"):
        (producer.commit if commit else producer.abort)()
    with pytest.raises(ProducerFenced):
        producer.begin()


def test_a_failed_abort_in_close_is_logged(
    brokers: ScriptedCluster, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), TransactionalProducer(cluster) as producer:
        begin_with_a_row(producer)
        brokers.script(EndTxnRequest, Refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    assert "could not be aborted and ends at its timeout" in caplog.text


def test_a_resumed_identity_continues_the_sequences(brokers: ScriptedCluster, cluster: Cluster) -> None:
    fence = init_producer(cluster, "sink")
    for number in range(3):
        with TransactionalProducer(cluster, fence) as producer:
            assert (producer.transactional_id, producer.identity) == ("sink", fence)
            begin_with(producer, f"{number}.a", f"{number}.b")
            producer.commit()
            assert producer.identity is not None
            fence = producer.identity
    found = [(header.producer_epoch, header.base_sequence) for header in headers(brokers)]
    assert found == ([(0, 0), (0, 2), (0, 4)] if level(brokers) == 1 else [(0, 0), (1, 0), (2, 0)])
    assert len(brokers.requests(InitProducerIdRequest)) == 1


def test_begin_may_be_repeated_after_an_error(brokers: ScriptedCluster, producer: TransactionalProducer) -> None:
    brokers.script(InitProducerIdRequest, Refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    with pytest.raises(ProducerFailed):
        producer.begin()
    producer.begin()
    with pytest.raises(ValueError, match=r"begin\(\) while the producer is open"):
        producer.begin()


def test_settings_that_allow_no_transactions_are_refused(brokers: ScriptedCluster) -> None:
    with Cluster(brokers.config()) as cluster, pytest.raises(ConfigError, match=r"transactional\.id: is needed"):
        TransactionalProducer(cluster)
    config = brokers.config(enable_idempotence="false")
    with Cluster(config) as cluster, pytest.raises(ConfigError, match=r"enable\.idempotence: must be true"):
        TransactionalProducer(cluster, "sink")
