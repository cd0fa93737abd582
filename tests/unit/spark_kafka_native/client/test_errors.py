import copy
import pickle

import pytest

from spark_kafka_native._client.admin.topics import TopicsError
from spark_kafka_native._client.errors import (
    BatchTooLarge,
    BrokerNotAvailable,
    CorruptRecords,
    FetchTimeout,
    NoSuchPartition,
    NotAReplica,
    OffsetOutOfRange,
    ProduceError,
    RecordTooLarge,
    TopicRecreated,
)
from spark_kafka_native._client.transactions.errors import (
    ProducerFailed,
    ProducerFenced,
    TransactionError,
    TransactionFailed,
    TransactionInDoubt,
)
from spark_kafka_native._client.transactions.handle import TransactionalIdentity
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ConnectionLost,
    RequestTimeout,
    Throttled,
    UnsupportedApiVersion,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition

TP = TopicPartition("events", 3)
HERE = HostPort("broker", 9092)
IDENTITY = TransactionalIdentity(
    transactional_id="sink", producer_id=1, producer_epoch=0, timeout_ms=1000, transaction_version=1
)

ERRORS: list[tuple[KafkaError, bool, str]] = [
    (BrokerNotAvailable(7, [2, 1]), True, "broker 7 is not in the cluster; its brokers are 1, 2"),
    (NoSuchPartition(TP, 2), False, "events-3 does not exist: the topic has 2 partitions"),
    (NoSuchPartition(TP, 1), False, "events-3 does not exist: the topic has 1 partition"),
    (NotAReplica(TP, 7), False, "broker 7 has no replica of events-3"),
    (OffsetOutOfRange(TP, 5, 10, 20), False, "events-3: offset 5 is not in the log, which has 10 to 20"),
    (FetchTimeout(TP, 5, 100, "why"), True, "events-3: nothing to read at offset 5 within 100 ms; why"),
    (BatchTooLarge(TP, 5, 99), False, "events-3: the record batch at offset 5 decompresses to more than 99 bytes"),
    (CorruptRecords(TP, 5, "bad CRC"), False, "events-3: records at offset 5 are corrupt: bad CRC"),
    (TopicRecreated(TP, "a", "b"), False, "events-3: the topic was deleted and created again"),
    (RecordTooLarge("events", 4, 2_000, 1_000), False, "row 4 for topic events takes 2000 bytes"),
    (ProduceError(TP, ErrorCode.MESSAGE_TOO_LARGE, "no", 9), False, "events-3: no; 9 records are not acknowledged"),
    (ProduceError(TP, ErrorCode.MESSAGE_TOO_LARGE, "no", 1), False, "events-3: no; 1 record is not acknowledged"),
    (TopicsError({"t": KafkaError(ErrorCode.INVALID_CONFIG, "topic t")}), False, "topic t"),
    (BrokerUnreachable({HERE: "refused"}, "for Fetch", "silence"), True, "broker:9092: refused), after silence"),
    (ConnectionLost(HERE, "the broker closed the connection"), True, "broker:9092: the broker closed"),
    (RequestTimeout(HERE, "Fetch", 30_000), True, "broker:9092: no response to Fetch within 30000 ms"),
    (Throttled(HERE, "Fetch", 700), True, "broker:9092: the broker throttles this client for 700 ms more"),
    (UnsupportedApiVersion(HERE, "Fetch", "versions 4-18", "versions 0-2"), False, "broker:9092: Fetch"),
    (AuthenticationFailed(HERE, "sasl.jaas.config", "no"), False, "broker:9092: sasl.jaas.config: no"),
]

TRANSACTION_ERRORS: list[TransactionError] = [
    TransactionFailed("sink", ErrorCode.MESSAGE_TOO_LARGE, "t-0: too large"),
    ProducerFailed("sink", ErrorCode.INVALID_PRODUCER_ID_MAPPING, "gone"),
    ProducerFenced("sink", ErrorCode.PRODUCER_FENCED, "commit"),
    TransactionInDoubt(IDENTITY, commit=True, code=ErrorCode.CONCURRENT_TRANSACTIONS, reason="commit"),
]
ERRORS += [(error, False, f"transactional id sink: {error.reason}") for error in TRANSACTION_ERRORS]


@pytest.mark.parametrize(("error", "retriable", "text"), ERRORS, ids=lambda value: type(value).__name__)
def test_errors_name_their_subject_and_can_be_pickled(error: KafkaError, retriable: bool, text: str) -> None:
    assert error.retriable is retriable
    assert text in str(error)
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is type(error)
        assert str(copied) == str(error)
        assert copied.code is error.code
        assert {name: str(value) for name, value in vars(copied).items()} == {n: str(v) for n, v in vars(error).items()}
