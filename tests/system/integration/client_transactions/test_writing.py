import pickle
import subprocess
import sys
import threading

import pyarrow as pa
import pytest

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata, commit_offsets, fetch_offsets
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.producer.transactional_producer import TransactionalProducer
from spark_kafka_native._client.transactions.describe_producers import describe_producers
from spark_kafka_native._client.transactions.ending import EndTxnOutcome, end_transaction
from spark_kafka_native._client.transactions.errors import ProducerFailed, ProducerFenced, TransactionFailed
from spark_kafka_native._client.transactions.requests import GroupMembership, init_producer
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.native_transactions import Transactions, valued
from tests.support.waiting import eventually
from tests.system.integration.client_transactions.conftest import Kafka


def test_rows_count_once_they_are_committed(transactions: Transactions, name: str, topic: str) -> None:
    with TransactionalProducer(transactions.cluster, name) as producer:
        for number in range(4):
            producer.begin()
            for partition in range(3):
                producer.send(topic, valued([f"{number}.{partition}.{row}" for row in range(50)], partition))
            assert not any(value.startswith(f"{number}.") for value in transactions.committed(topic))
            if number == 1:
                producer.flush()
                producer.abort()
            else:
                producer.commit()
        assert producer.metrics.records == 4 * 150
    expected = [f"{number}.{partition}.{row}" for number in (0, 2, 3) for partition in range(3) for row in range(50)]
    transactions.soon_committed(topic, expected)


def test_the_epoch_rises_with_each_transaction_from_level_2_on(
    kafka: Kafka, transactions: Transactions, name: str, topic: str
) -> None:
    epochs: list[int] = []
    with TransactionalProducer(transactions.cluster, name) as producer:
        for number in range(3):
            producer.begin()
            assert producer.identity is not None
            assert producer.identity.transaction_version == kafka.level
            epochs.append(producer.identity.producer_epoch - epochs[0] if epochs else producer.identity.producer_epoch)
            producer.send(topic, valued([str(number)]))
            producer.commit()
    assert epochs[1:] == ([1, 2] if kafka.level == 2 else [0, 0])


def test_a_transaction_without_rows_is_nothing(transactions: Transactions, name: str, topic: str) -> None:
    with TransactionalProducer(transactions.cluster, name) as producer:
        producer.begin()
        assert producer.prepare().is_empty
        producer.commit()
        producer.begin()
        producer.abort()
        producer.begin()
        producer.send(topic, valued(["a"]))
        producer.commit()
    transactions.soon_committed(topic, ["a"])


def test_an_open_transaction_is_aborted_at_close(transactions: Transactions, name: str, topic: str) -> None:
    with TransactionalProducer(transactions.cluster, name) as producer:
        producer.begin()
        producer.send(topic, valued(["lost"]))
        producer.flush()
    transactions.prepared(f"{name}-other", topic, "seen")
    with TransactionalProducer(transactions.cluster, name) as producer:
        producer.begin()
        producer.send(topic, valued(["kept"], 1))
        producer.commit()
    transactions.soon_committed(topic, ["kept"])


def test_a_failed_transaction_is_aborted_and_the_next_one_counts(
    transactions: Transactions, name: str, topic: str
) -> None:
    with TransactionalProducer(transactions.cluster, name) as producer:
        producer.begin()
        producer.send(topic, valued(["good"]))
        producer.flush()
        member = GroupMembership(member_id="unknown", generation_id=3)
        with pytest.raises(TransactionFailed) as caught:
            producer.send_offsets(f"group-{name}", {TopicPartition(topic, 0): 1}, member)
        assert caught.value.code is ErrorCode.ILLEGAL_GENERATION
        with pytest.raises(TransactionFailed):
            producer.commit()
        producer.abort()
        producer.begin()
        producer.send(topic, valued(["next"]))
        producer.commit()
    transactions.soon_committed(topic, ["next"])


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_offsets_count_with_the_rows(
    cluster: Cluster, transactions: Transactions, name: str, topic: str, commit: bool
) -> None:
    group, parts = f"group-{name}", [TopicPartition(topic, number) for number in range(2)]
    commit_offsets(cluster, group, dict.fromkeys(parts, 1))
    with TransactionalProducer(cluster, name) as producer:
        producer.begin()
        producer.send(topic, valued(["a"]))
        producer.send_offsets(group, {parts[0]: 5})
        producer.send_offsets(group, {parts[1]: OffsetAndMetadata(offset=6, metadata="note")})
        assert producer.prepare().groups == (group,)
        assert {part: found.offset for part, found in fetch_offsets(cluster, group).items()} == dict.fromkeys(parts, 1)
        (producer.commit if commit else producer.abort)()
    found = fetch_offsets(cluster, group, parts, require_stable=True)
    assert [found[part].offset for part in parts] == ([5, 6] if commit else [1, 1])
    assert found[parts[1]].metadata == ("note" if commit else "")


def test_offsets_alone_make_a_transaction(cluster: Cluster, name: str, topic: str) -> None:
    group, part = f"group-{name}", TopicPartition(topic, 0)
    with TransactionalProducer(cluster, name) as producer:
        for offset in (3, 4):
            producer.begin()
            producer.send_offsets(group, {part: offset})
            producer.commit()
    assert fetch_offsets(cluster, group, [part], require_stable=True)[part].offset == 4


def test_another_process_ends_what_was_prepared(transactions: Transactions, name: str, topic: str) -> None:
    kept, dropped = (transactions.prepared(f"{name}-{value}", topic, value) for value in ("kept", "dropped"))
    assert [(part.from_offset, part.until_offset) for part in (*kept.partitions, *dropped.partitions)] == [
        (0, 1),
        (1, 2),
    ]
    code = (
        "import pickle, sys\n"
        "from spark_kafka_native._client.cluster.cluster import Cluster\n"
        "from spark_kafka_native._client.transactions.ending import end_transaction\n"
        "config, kept, dropped = pickle.loads(sys.stdin.buffer.read())\n"
        "with Cluster(config) as cluster:\n"
        "    print(end_transaction(cluster, kept, commit=True).outcome.value)\n"
        "    print(end_transaction(cluster, dropped, commit=False).outcome.value)\n"
    )
    given = pickle.dumps((transactions.cluster.config, kept, dropped))
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, timeout=60, check=False)
    assert done.stdout.split() == [b"done", b"done"], done.stderr
    transactions.soon_committed(topic, ["kept"])


def test_a_newer_producer_fences_and_aborts(transactions: Transactions, name: str, topic: str) -> None:
    with TransactionalProducer(transactions.cluster, name) as older:
        older.begin()
        older.send(topic, valued(["old"]))
        handle = older.prepare()
        assert init_producer(transactions.cluster, name).producer_epoch > handle.producer_epoch
        with pytest.raises(ProducerFenced):
            older.commit()
        with pytest.raises(ProducerFenced):
            older.begin()
    ending = end_transaction(transactions.cluster, handle, commit=True)
    assert (ending.outcome, ending.was_fenced, ending.is_closed) == (EndTxnOutcome.ENDED_OTHERWISE, True, True)
    assert transactions.committed(topic) == []


def test_only_who_is_still_the_producer_can_claim_the_id(cluster: Cluster, name: str) -> None:
    first = init_producer(cluster, name)
    assert init_producer(cluster, name, claimed=first).producer_epoch > first.producer_epoch
    third = init_producer(cluster, name)
    with pytest.raises(ProducerFenced):
        init_producer(cluster, name, claimed=first)
    assert init_producer(cluster, name, claimed=third).producer_epoch > third.producer_epoch


def test_a_timeout_that_the_broker_does_not_allow_is_named(cluster: Cluster, name: str) -> None:
    named = r"transaction.timeout.ms = 2147483647 .* transaction.max.timeout.ms"
    with (
        TransactionalProducer(cluster, name, timeout_ms=2**31 - 1) as producer,
        pytest.raises(ProducerFailed, match=named),
    ):
        producer.begin()


def test_another_process_continues_an_identity_with_the_next_sequence_number(
    cluster: Cluster, transactions: Transactions, name: str, topic: str
) -> None:
    fence = pickle.loads(pickle.dumps(init_producer(cluster, name)))
    expected = []
    for number in range(3):
        with TransactionalProducer(cluster, fence) as producer:
            producer.begin()
            producer.send(topic, valued([f"{number}.a", f"{number}.b"]))
            expected += [f"{number}.a", f"{number}.b"]
            producer.commit()
            assert producer.identity is not None
            fence = pickle.loads(pickle.dumps(producer.identity))
    transactions.soon_committed(topic, expected)
    init_producer(cluster, name)
    with TransactionalProducer(cluster, fence) as producer:
        producer.begin()
        producer.send(topic, valued(["late"]))
        with pytest.raises(ProducerFenced):
            producer.commit()


def test_a_large_transaction_of_many_batches(transactions: Transactions, name: str, topic: str) -> None:
    values = [f"{number:06}-{'x' * 50}" for number in range(20_000)]
    with TransactionalProducer(transactions.cluster, name) as producer:
        producer.begin()
        for start in range(0, len(values), 5000):
            producer.send(topic, valued(values[start : start + 5000], None))
        handle = producer.prepare()
        assert sum(part.until_offset - part.from_offset for part in handle.partitions) == len(values)
        producer.commit()
    transactions.soon_committed(topic, values)


def test_producers_of_partitions_are_described(
    cluster: Cluster, transactions: Transactions, name: str, topic: str
) -> None:
    handle = transactions.prepared(name, topic, "a", "b")
    part = TopicPartition(topic, 0)
    (found,) = describe_producers(cluster, [part])[part]
    assert (found.producer_id, found.producer_epoch) == (handle.producer_id, handle.producer_epoch)
    assert (found.last_sequence, found.transaction_start_offset, found.has_open_transaction) == (1, 0, True)
    end_transaction(cluster, handle, commit=True)
    eventually(lambda: [item for item in describe_producers(cluster, [part])[part] if item.has_open_transaction], [])


def test_many_producers_at_once(transactions: Transactions, name: str, topic: str) -> None:
    def write(number: int) -> None:
        with TransactionalProducer(transactions.cluster, f"{name}-{number}") as producer:
            for turn in range(3):
                producer.begin()
                producer.send(topic, valued([f"{number}.{turn}"], number % 3))
                (producer.abort if turn == 1 else producer.commit)()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    transactions.soon_committed(topic, [f"{number}.{turn}" for number in range(6) for turn in (0, 2)])


def test_columns_of_all_kinds_travel_in_transactions(transactions: Transactions, name: str, topic: str) -> None:
    rows = pa.RecordBatch.from_pydict({"key": pa.array([b"k", None]), "value": pa.array([b"v", b"w"])})
    with TransactionalProducer(transactions.cluster, name) as producer:
        producer.begin()
        producer.send(topic, rows)
        producer.commit()
    transactions.soon_committed(topic, ["v", "w"])
