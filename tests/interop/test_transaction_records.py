"""Records of ``__transaction_state``: the bytes that Apache Kafka's own classes write, read by them as by us."""

import base64
import random
from dataclasses import replace

import pytest

from broker_embedded._records.coordinator_record import CoordinatorRecord
from broker_embedded._transactions.records import read_transaction_record, transaction_record
from broker_embedded._transactions.state import NEVER_MS, Transaction, TransactionState, TransactionVersion
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.programs.java_programs import java_responses
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import apache_kafka_unavailable, kafka_jars

pytestmark = pytest.mark.interop

RECORDS = 300
TV_0 = TransactionVersion.TV_0


def drawn(dice: random.Random) -> Transaction:
    state = dice.choice(list(TransactionState))
    wanted = 0 if state is TransactionState.EMPTY else dice.choice((0, 1, 3, 20))
    return Transaction(
        transactional_id="".join(dice.choices("abc-_.é😀", k=dice.choice((1, 5, 200)))),
        producer_id=dice.choice((0, 7, 2**62)),
        previous_producer_id=dice.choice((-1, 0, 6)),
        next_producer_id=dice.choice((-1, 0, 8)),
        producer_epoch=dice.choice((0, 5, 32_767)),
        timeout_ms=dice.choice((1, 60_000, NEVER_MS)),
        state=state,
        partitions=frozenset(TopicPartition(dice.choice("tuv"), dice.randrange(50)) for _ in range(wanted)),
        started_ms=dice.choice((-1, 1_700_000_000_000)),
        updated_ms=dice.choice((0, 1_700_000_000_001)),
        client_version=dice.choice(list(TransactionVersion)),
    )


def fields(known: Transaction, partitions: str) -> str:
    name = "=" + base64.b64encode(known.transactional_id.encode()).decode()
    numbers = (known.producer_id, known.previous_producer_id, known.next_producer_id, known.producer_epoch)
    times = (known.timeout_ms, int(known.state), known.started_ms, known.updated_ms, int(known.client_version))
    return " ".join((name, *map(str, (*numbers, *times)), partitions))


def as_lists(known: Transaction) -> str:
    """Partitions as they are to be written; "-" where no list is."""
    if known.state is TransactionState.EMPTY:
        return "-"
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in known.by_topic().items()) or ";"


def as_read(known: Transaction) -> str:
    return ";".join(sorted(f"{partition.topic}:{partition.partition}" for partition in known.partitions))


def version_of(record: CoordinatorRecord) -> int:
    assert record.value is not None
    return record.value[1]


def as_base64(record: CoordinatorRecord) -> str:
    assert record.value is not None
    return f"{base64.b64encode(record.key).decode()} {base64.b64encode(record.value).decode()}"


def test_records_are_those_of_apache_kafka(seed: int) -> None:
    skip_if(apache_kafka_unavailable())
    dice = random.Random(seed)
    known = [drawn(dice) for _ in range(RECORDS)]
    ours = [transaction_record(transaction, flexible=bool(number % 2)) for number, transaction in enumerate(known)]
    write = [
        f"write {version_of(record)} {fields(transaction, as_lists(transaction))}"
        for transaction, record in zip(known, ours, strict=True)
    ]
    read = [f"read {as_base64(record)}" for record in ours]
    responses = java_responses("TransactionRecords", [*write, *read], jars=kafka_jars())
    assert responses[:RECORDS] == [as_base64(record) for record in ours]
    kept = [
        transaction
        if version_of(record)
        else replace(transaction, previous_producer_id=-1, next_producer_id=-1, client_version=TV_0)
        for transaction, record in zip(known, ours, strict=True)
    ]
    assert responses[RECORDS:] == [fields(transaction, as_read(transaction)) for transaction in kept]
    assert [read_transaction_record(record) for record in ours] == [(each.transactional_id, each) for each in kept]
    assert {version_of(record) for record in ours} == {0, 1}
