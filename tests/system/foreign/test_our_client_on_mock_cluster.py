"""Our client against librdkafka's mock brokers, which answer with errors, fall silent, move leaders and go down.

Whatever they do: nothing is lost, nothing comes twice, and what belongs to one partition stays in order.

The mock does not look at sequence numbers unless there is a transaction. So order is only checked where one request
is in flight at a time, and a response that is lost after the records were written is no matter for here but for brokers
that know their producers (`test_broken_connections`).
"""

import random
import threading
import time
from collections.abc import Iterator

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST, list_offsets
from spark_kafka_native._client.errors import FetchTimeout, OffsetOutOfRange, ProduceError
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.confluent import ConfluentClient
from tests.support.clients.interface import Record
from tests.support.clients.native import config_of, read_range, rows_of
from tests.support.scripted.fetched_logs import OneRange
from tests.support.servers.mock_cluster import DISCONNECT, MockCluster, mock_cluster_unavailable

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
_UNAVAILABLE = mock_cluster_unavailable()

pytestmark = [pytest.mark.skipif(_UNAVAILABLE is not None, reason=_UNAVAILABLE or ""), pytest.mark.timeout(60)]

TOPIC = "t"
PARTITIONS = 3
FETCH, LIST_OFFSETS = FetchRequest.api_key, ListOffsetsRequest.api_key
PRODUCE, INIT_PRODUCER_ID = ProduceRequest.api_key, InitProducerIdRequest.api_key
METADATA, API_VERSIONS = MetadataRequest.api_key, ApiVersionsRequest.api_key

# Errors that a broker may answer with at any time, and after which the same question is worth asking again.
PASSING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    DISCONNECT,
]


@pytest.fixture
def mock() -> Iterator[MockCluster]:
    with MockCluster(3) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        yield cluster


@pytest.fixture
def cluster(mock: MockCluster) -> Iterator[Cluster]:
    # The mock lets every Fetch that it answers with an error wait as if for data.
    config = config_of(mock.bootstrap_servers, retry_backoff_ms=5, reconnect_backoff_ms=5, fetch_max_wait_ms=20)
    with Cluster(config) as cluster:
        yield cluster


def _fill(mock: MockCluster, count: int) -> list[list[bytes]]:
    records = [Record(None, b"%d" % number, partition=number % PARTITIONS) for number in range(count)]
    ConfluentClient().produce(mock.bootstrap_servers, TOPIC, records, idempotent=False)  # half a second less
    return [[b"%d" % number for number in range(first, count, PARTITIONS)] for first in range(PARTITIONS)]


def _read_all(cluster: Cluster) -> list[list[bytes | None]]:
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    return [[row.value for row in read_range(cluster, part, 0, ends[part].offset)] for part in partitions]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: getattr(error, "name", "DISCONNECT"))
@pytest.mark.parametrize("api_key", [FETCH, LIST_OFFSETS], ids=["Fetch", "ListOffsets"])
def test_retriable_fetch_errors_are_retried(mock: MockCluster, cluster: Cluster, api_key: int, error: int) -> None:
    expected = _fill(mock, 900)
    mock.track_requests()
    mock.push_errors(api_key, [error] * 3)
    assert _read_all(cluster) == expected
    without_errors = 1 if api_key == LIST_OFFSETS else PARTITIONS
    assert sum(request.api_key == api_key for request in mock.requests()) >= without_errors + 3


def test_connections_that_break_at_the_first_request(mock: MockCluster, cluster: Cluster) -> None:
    expected = _fill(mock, 30)
    mock.push_errors(API_VERSIONS, [DISCONNECT] * 4)
    mock.push_errors(METADATA, [DISCONNECT] * 4)
    assert _read_all(cluster) == expected


def test_a_topic_with_retriable_errors_is_read_in_the_end(mock: MockCluster, cluster: Cluster) -> None:
    expected = _fill(mock, 30)
    mock.set_topic_error(TOPIC, ErrorCode.LEADER_NOT_AVAILABLE)
    healing = threading.Timer(0.3, mock.set_topic_error, (TOPIC, ErrorCode.NONE))
    healing.start()
    assert _read_all(cluster) == expected
    healing.join()


def test_reading_follows_the_leader(mock: MockCluster, cluster: Cluster) -> None:
    expected = _fill(mock, 3000)
    for leader in (1, 2, 3, 1):
        for partition in range(PARTITIONS):
            mock.set_leader(TOPIC, partition, leader)
        assert _read_all(cluster) == expected


def _all_up(mock: MockCluster) -> None:
    for broker in mock.broker_ids:
        mock.broker_up(broker)


def test_reading_waits_for_a_broker_that_is_down(mock: MockCluster, cluster: Cluster) -> None:
    expected = _fill(mock, 300)
    assert _read_all(cluster) == expected
    for broker in mock.broker_ids:
        mock.broker_down(broker)
    revival = threading.Timer(0.4, _all_up, (mock,))
    revival.start()
    assert _read_all(cluster) == expected
    revival.join()


def test_reading_ends_with_a_fetch_timeout(mock: MockCluster) -> None:
    _fill(mock, 3)
    partition = TopicPartition(TOPIC, 0)
    with (
        Cluster(config_of(mock.bootstrap_servers)) as cluster,
        OneRange(cluster, partition, 0, 5, timeout_ms=700) as fetcher,
        pytest.raises(FetchTimeout, match=f"{TOPIC}-0: nothing to read at offset 1"),
    ):
        list(fetcher)


def test_a_deleted_offset_is_out_of_range(mock: MockCluster, cluster: Cluster) -> None:
    _fill(mock, 300)
    partition = TopicPartition(TOPIC, 1)
    mock.delete_records(TOPIC, 1, 50)
    with pytest.raises(OffsetOutOfRange) as error:
        read_range(cluster, partition, 0, 100)
    assert (error.value.offset, error.value.earliest, error.value.latest) == (0, 50, 100)
    assert list_offsets(cluster, {partition: EARLIEST})[partition].offset == 50
    assert [row.offset for row in read_range(cluster, partition, 50, 100)] == list(range(50, 100))


def test_a_topic_that_cannot_be_read_is_named(mock: MockCluster) -> None:
    mock.set_topic_error(TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with Cluster(config_of(mock.bootstrap_servers)) as cluster, pytest.raises(KafkaError, match=TOPIC) as error:
        list_offsets(cluster, {TopicPartition(TOPIC, 0): LATEST})
    assert error.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


# --- writing


def _writing_config(mock: MockCluster, in_flight: int = 1, **more: object) -> ClientConfig:
    settings = {
        "retry_backoff_ms": 5,
        "retry_backoff_max_ms": 20,
        "reconnect_backoff_ms": 5,
        "batch_size": 1000,
        "linger_ms": 0,
        **more,
    }
    return config_of(mock.bootstrap_servers, max_in_flight_requests_per_connection=in_flight, **settings)


def _write(producer: Producer, first: int, count: int) -> None:
    """Send the numbers from `first` on, 100 rows in a batch, partitions in turn."""
    for start in range(first, first + count, 100):
        numbers = range(start, start + 100)
        producer.send(TOPIC, rows_of([Record(None, b"%d" % n, partition=n % PARTITIONS) for n in numbers]))


def _write_and_flush(producer: Producer, first: int, count: int) -> None:
    _write(producer, first, count)
    producer.flush()


def _assert_stored(mock: MockCluster, count: int, *, in_order: bool = True) -> None:
    client, servers = ConfluentClient(), mock.bootstrap_servers
    for partition in range(PARTITIONS):
        expected = list(range(partition, count, PARTITIONS))
        _, end = client.watermarks(servers, TOPIC, partition)
        stored = client.consume(servers, TOPIC, {partition: end})
        numbers = [int(record.value or b"") for record in stored]
        assert (numbers if in_order else sorted(numbers)) == expected
        assert [record.offset for record in stored] == list(range(len(expected)))


WRITING_ERRORS = [*PASSING, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE]


@pytest.mark.parametrize(
    ("error", "in_flight"),
    # A broken connection takes with it the responses of the other requests in flight.
    [(error, count) for error in WRITING_ERRORS for count in (1, 5) if (error, count) != (DISCONNECT, 5)],
    ids=lambda value: getattr(value, "name", None) or ("DISCONNECT" if value == DISCONNECT else str(value)),
)
def test_retriable_produce_errors_are_retried(mock: MockCluster, error: int, in_flight: int) -> None:
    mock.track_requests()
    mock.push_errors(PRODUCE, [0, error, 0, error, error, 0, 0, 0, error])
    with Producer(_writing_config(mock, in_flight)) as producer:
        _write(producer, 0, 3000)
        producer.flush()
        assert producer.unacknowledged == 0
        assert producer.metrics.records == 3000
        received = sum(request.api_key == PRODUCE for request in mock.requests())
        assert received >= 9  # the errors were met
    _assert_stored(mock, 3000, in_order=in_flight == 1)


@pytest.mark.parametrize(
    "error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, DISCONNECT]
)
def test_writing_waits_for_a_producer_id(mock: MockCluster, error: int) -> None:
    mock.track_requests()
    mock.push_errors(INIT_PRODUCER_ID, [error] * 3)
    with Producer(_writing_config(mock)) as producer:
        _write(producer, 0, 300)
    assert sum(request.api_key == INIT_PRODUCER_ID for request in mock.requests()) == 4
    _assert_stored(mock, 300)


def test_writing_follows_the_leader(mock: MockCluster) -> None:
    with Producer(_writing_config(mock)) as producer:
        for turn in range(12):
            for partition in range(PARTITIONS):
                mock.set_leader(TOPIC, partition, (turn + partition) % 3 + 1)
            _write(producer, turn * 300, 300)
    assert producer.metrics.retries > 0
    _assert_stored(mock, 3600)


def test_writing_waits_for_brokers_that_are_down(mock: MockCluster) -> None:
    with Producer(_writing_config(mock)) as producer:
        _write(producer, 0, 300)
        producer.flush()
        for broker in mock.broker_ids:
            mock.broker_down(broker)
        revival = threading.Timer(0.4, _all_up, (mock,))
        revival.start()
        _write(producer, 300, 900)
        producer.flush()
        revival.join()
    _assert_stored(mock, 1200)


def test_a_refusal_names_the_partition_and_ends_the_producer(mock: MockCluster) -> None:
    producer = Producer(_writing_config(mock))
    _write(producer, 0, 300)
    producer.flush()
    # More than there are requests in flight. They stay: a broker may read a request after the producer has failed.
    mock.push_errors(PRODUCE, [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 20)
    with pytest.raises(ProduceError, match=rf"{TOPIC}-\d") as refusal:
        _write_and_flush(producer, 300, 900)
    assert refusal.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(ProduceError):
        producer.send(TOPIC, rows_of([Record(None, b"after")]))
    producer.close()
    _assert_stored(mock, 300)


def test_writing_ends_with_the_delivery_timeout(mock: MockCluster) -> None:
    producer = Producer(_writing_config(mock, delivery_timeout_ms=900, request_timeout_ms=300))
    _write(producer, 0, 300)
    producer.flush()
    for broker in mock.broker_ids:
        mock.broker_down(broker)
    with pytest.raises(ProduceError, match=rf"{TOPIC}-\d"):
        _write_and_flush(producer, 300, 100)
    producer.close()


def test_writing_continues_through_moving_leaders_and_restarts(mock: MockCluster, seed: int) -> None:
    dice = random.Random(seed)
    quiet = threading.Event()

    def disturb() -> None:
        while not quiet.wait(dice.uniform(0, 0.03)):
            broker = dice.choice(mock.broker_ids)
            match dice.randrange(3):
                case 0:
                    mock.set_leader(TOPIC, dice.randrange(PARTITIONS), broker)
                case 1:
                    mock.push_errors(PRODUCE, [dice.choice(PASSING)])
                case 2:
                    mock.set_rtt(dice.randrange(5), broker)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    count = 0
    try:
        with Producer(_writing_config(mock)) as producer:
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                _write_and_flush(producer, count, 300)
                count += 300
    finally:
        quiet.set()
        disturber.join()
    assert producer.metrics.retries > 0
    assert producer.metrics.records == count > 0
    mock.set_rtt(0)
    _assert_stored(mock, count)
