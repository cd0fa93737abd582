import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa
import pytest
from dirty_equals import IsOneOf, IsTrueLike

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.cursor import PartitionRange
from spark_kafka_native._client.consumer.row_fetcher import row_fetcher
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestedEntityData,
    RequestedEntryData,
)
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from spark_kafka_native._protocol.messages.fetch import FetchResponse
from spark_kafka_native._protocol.messages.produce import ProduceResponse
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.driver import batch, fetch_request, produce_request
from tests.support.broker.quotas import alter, describe, entry, formatted
from tests.support.clients.native import config_of
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.scripted.fetched_logs import OneRange
from tests.support.servers.both_brokers import BOTH, running_broker
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.waiting import eventually

ResponseT = TypeVar("ResponseT", bound=Response)
PATIENCE_S = 30.0
RATE = 100_000.0
"""Bytes a second, of ten seconds that are looked at."""
PIECE = 270_000
EXACT, DEFAULT, ANY = 0, 1, 2


class Client:
    _numbers = itertools.count(1)

    def __init__(self, broker: AnyBroker) -> None:
        self.client_id = f"client-{next(self._numbers)}-{time.time_ns()}"
        self.raw = RawClient(broker.bootstrap_servers)

    def ask(self, request: Request[ResponseT], version: int) -> ResponseT:
        self.raw.send(request_bytes(request, version, 1, self.client_id))
        return decode_response(type(request).response, version, self.raw.frame())[1]  # type: ignore[return-value]  # a request names its response's class

    def produce(self, topic: str) -> ProduceResponse:
        return self.ask(produce_request(topic, batch(b"x" * PIECE)), 9)

    def fetch(self, topic: str) -> FetchResponse:
        return self.ask(fetch_request(topic, max_bytes=PIECE), 11)


@pytest.fixture
def client(any_broker: AnyBroker) -> Iterator[Client]:
    found = Client(any_broker)
    yield found
    found.raw.sock.close()


def throttled(
    client: Client, request: Callable[[], ResponseT], throttle_ms: Callable[[ResponseT], int]
) -> tuple[ResponseT, int]:
    """Ask until the response asks for silence, which it does once the quota holds and is used up; and there is silence.

    The next request of the connection is not answered before its time, which is counted from before the response: this
    process may be late to see it.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        begun = time.monotonic()
        response = request()
        if throttle_ms(response):
            client.ask(ApiVersionsRequest(), 0)
            assert time.monotonic() - begun >= throttle_ms(response) / 1000 - 0.01
            return response, throttle_ms(response)
        time.sleep(0.01)  # polls: the broker counts bytes after it responds
    raise AssertionError("nothing was throttled")


def test_a_producer_above_its_byte_rate_gets_a_response_and_is_then_muted(
    client: Client, any_broker: AnyBroker, new_topic: TopicMaker
) -> None:
    topic = new_topic()
    alter(client, {"client-id": client.client_id}, producer_byte_rate=RATE)
    response, wait_ms = throttled(client, lambda: client.produce(topic), lambda response: response.throttle_time_ms)
    assert response.responses[0].partition_responses[0].error_code == 0
    # Four pieces are 8 per cent more than ten seconds allow; the ten are eleven at the end of a window.
    assert 0 < wait_ms < 4000
    other = Client(any_broker)
    assert other.produce(topic).throttle_time_ms == 0
    other.raw.sock.close()


def test_a_consumer_above_its_byte_rate_gets_an_empty_response(client: Client, new_topic: TopicMaker) -> None:
    topic = new_topic()
    client.produce(topic)
    alter(client, {"client-id": client.client_id}, consumer_byte_rate=RATE)
    response, wait_ms = throttled(client, lambda: client.fetch(topic), lambda response: response.throttle_time_ms)
    assert response.responses == ()
    assert 0 < wait_ms < 4000


def test_a_client_above_its_mutation_rate_is_refused(client: Client) -> None:
    alter(client, {"client-id": client.client_id}, controller_mutation_rate=1.0)
    numbers = itertools.count(1)

    def create() -> tuple[int, int]:
        name = f"{client.client_id}-{next(numbers)}"
        wanted = CreatableTopic(name=name, num_partitions=6, replication_factor=1)
        request = CreateTopicsRequest(topics=(wanted,), timeout_ms=10_000, validate_only=True)
        response = client.ask(request, 7)
        return response.topics[0].error_code, response.throttle_time_ms

    code, wait_ms = eventually(create, ~IsOneOf((0, 0)), within_s=PATIENCE_S)
    assert ErrorCode.of(code) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 0 < wait_ms <= 6000


OUR_RATE = 1_000_000.0
PIECES = 30
"""Of a tenth of what a window allows: the rate is above the quota for more than a second."""
ROWS = 4
VALUE = b"x" * 25_000


@pytest.fixture(scope="module", params=BOTH)
def quick_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    """A broker whose quota windows are one second instead of ten."""
    settings = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
    with running_broker(request.param, tmp_path_factory.mktemp("quick-broker"), settings) as broker:
        yield broker


@pytest.fixture
def limited(quick_broker: AnyBroker) -> Iterator[Client]:
    """Sets the quotas of `ours`, and has its client id."""
    found = Client(quick_broker)
    yield found
    found.raw.sock.close()


@pytest.fixture
def ours(quick_broker: AnyBroker, limited: Client) -> Iterator[Cluster]:
    with Cluster(config_of(quick_broker.bootstrap_servers, client_id=limited.client_id, linger_ms=0)) as cluster:
        yield cluster


@pytest.fixture
def topic(quick_broker: AnyBroker) -> str:
    return TopicMaker(quick_broker)(2)


def write(cluster: Cluster, topic: str, partition: int, pieces: int) -> None:
    rows = pa.RecordBatch.from_pydict(
        {"value": pa.array([VALUE] * ROWS), "partition": pa.array([partition] * ROWS, pa.int32())}
    )
    with Producer(cluster) as producer:
        for _ in range(pieces):
            producer.send(topic, rows)
            producer.flush()


def throttle_ms(cluster: Cluster, partition: TopicPartition) -> float:
    """The throttle time of the connection that was used last."""
    deadline = Deadline.after_ms(PATIENCE_S * 1000)
    connection = cluster.borrow(cluster.leader(partition, deadline).node, deadline)
    cluster.give_back(connection)
    return connection.throttle_ms


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
def test_our_reader_gets_everything_in_spite_of_a_consumer_quota(
    limited: Client, ours: Cluster, topic: str, together: bool
) -> None:
    ends = {0: ROWS * 10, 1: ROWS * (PIECES - 10)}
    for number, end in ends.items():
        write(ours, topic, number, end // ROWS)
    alter(limited, {"client-id": limited.client_id}, consumer_byte_rate=OUR_RATE)
    throttled(limited, lambda: limited.fetch(topic), lambda response: response.throttle_time_ms)
    begun, found = time.monotonic(), dict.fromkeys(ends, 0)
    if together:
        ranges = (
            PartitionRange(partition=TopicPartition(topic, number), from_offset=0, until_offset=end)
            for number, end in ends.items()
        )
        with row_fetcher(ours, ranges) as fetcher:
            for partition, records in fetcher:
                found[partition.partition] += records.num_rows
            assert fetcher.metrics.retries == 0
    else:
        for number, end in ends.items():
            with OneRange(ours, TopicPartition(topic, number), 0, end) as fetcher:
                found[number] = sum(records.num_rows for records in fetcher)
                assert fetcher.metrics.retries == 0
    assert found == ends
    assert time.monotonic() - begun >= 1, "the quota was not in force"


def test_our_producer_writes_everything_once_in_spite_of_a_producer_quota(
    limited: Client, ours: Cluster, topic: str
) -> None:
    alter(limited, {"client-id": limited.client_id}, producer_byte_rate=OUR_RATE)
    response, _ = throttled(limited, lambda: limited.produce(topic), lambda response: response.throttle_time_ms)
    first = response.responses[0].partition_responses[0].base_offset + 1
    begun = time.monotonic()
    write(ours, topic, 0, PIECES)
    assert time.monotonic() - begun >= 1, "the quota was not in force"
    with OneRange(ours, TopicPartition(topic, 0), first, first + ROWS * PIECES) as fetcher:
        assert sum(records.num_rows for records in fetcher) == ROWS * PIECES


def test_our_client_lives_with_a_request_quota(limited: Client, ours: Cluster, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    write(ours, topic, 0, 1)
    alter(limited, {"client-id": limited.client_id}, request_percentage=1.0)

    def ask_until_throttled() -> float:
        for _ in range(50):  # without the pauses of `eventually`, in which the quota would recover
            ours.metadata([topic])
            if wait_ms := throttle_ms(ours, partition):
                return wait_ms
        return 0

    eventually(ask_until_throttled, IsTrueLike, within_s=PATIENCE_S)
    # A Fetch that takes longer than the quota allows is answered without records. A slow machine needs more than 10 ms.
    alter(limited, {"client-id": limited.client_id}, request_percentage=50.0)
    with OneRange(ours, partition, 0, ROWS) as fetcher:
        assert sum(records.num_rows for records in fetcher) == ROWS
    write(ours, topic, 0, 1)


def change(client: Client, *entries: RequestedEntryData, validate_only: bool = False) -> list[int]:
    """The error codes of the entities, in the order of their names."""
    response = client.ask(AlterClientQuotasRequest(entries=entries, validate_only=validate_only), 1)
    ordered = sorted(
        response.entries, key=lambda each: str([(part.entity_type, part.entity_name) for part in each.entity])
    )
    return [each.error_code for each in ordered]


def test_quotas_are_found_by_filters(client: Client) -> None:
    user, client_id = f"user-{client.client_id}", client.client_id
    both = {"user": user, "client-id": client_id}
    assert change(
        client,
        entry({"user": user}, producer_byte_rate=1024.0, request_percentage=12.5),
        entry(both, consumer_byte_rate=5.0),
        entry({"user": user, "client-id": None}, consumer_byte_rate=6.0),
    ) == [0, 0, 0]
    of_user = {
        f"user={user}": {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
        f"client-id={client_id}, user={user}": {"consumer_byte_rate": 5.0},
        f"client-id=<default>, user={user}": {"consumer_byte_rate": 6.0},
    }

    for version in (0, 1):
        asked = functools.partial(describe, client, ("user", EXACT, user), version=version)
        eventually(lambda: formatted(asked()), of_user, within_s=PATIENCE_S)  # noqa: B023  # called at once
    assert list(formatted(describe(client, ("user", EXACT, user), strict=True))) == [f"user={user}"]
    found = formatted(describe(client, ("user", EXACT, user), ("client-id", DEFAULT, None)))
    assert list(found) == [f"client-id=<default>, user={user}"]
    assert len(formatted(describe(client, ("user", EXACT, user), ("client-id", ANY, None)))) == 2
    assert formatted(describe(client, ("user", EXACT, "unknown"))) == {}
    assert change(client, entry({"user": user}, producer_byte_rate=None, consumer_byte_rate=None)) == [0]
    left = {f"user={user}": {"request_percentage": 12.5}}
    eventually(lambda: formatted(describe(client, ("user", EXACT, user), strict=True)), left, within_s=PATIENCE_S)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([("team", EXACT, "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, "x"), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_make_no_sense(
    client: Client, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    response = describe(client, *components)
    assert ErrorCode.of(response.error_code) is code
    assert response.entries is None


@pytest.mark.parametrize(
    ("entity", "key", "value", "code"),
    [
        ({}, "producer_byte_rate", 1.0, ErrorCode.INVALID_REQUEST),
        ({"team": "x"}, "producer_byte_rate", 1.0, ErrorCode.INVALID_REQUEST),
        ({"user": ""}, "producer_byte_rate", 1.0, ErrorCode.INVALID_REQUEST),
        ({"user": "u", "ip": "127.0.0.9"}, "producer_byte_rate", 1.0, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "connection_creation_rate", 1.0, ErrorCode.INVALID_REQUEST),
        ({"ip": "127.0.0.9"}, "producer_byte_rate", 1.0, ErrorCode.INVALID_REQUEST),
        ({"ip": "no such host"}, "connection_creation_rate", 1.0, ErrorCode.INVALID_REQUEST),
        ({"ip": "127.0.0.9"}, "connection_creation_rate", 1.0, ErrorCode.NONE),
        ({"ip": None}, "connection_creation_rate", 1000.0, ErrorCode.NONE),
        ({"user": "u"}, "fun", 1.0, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "producer_byte_rate", 0.0, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "producer_byte_rate", -1.0, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "producer_byte_rate", 1.5, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "producer_byte_rate", 1e30, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, "controller_mutation_rate", 0.25, ErrorCode.NONE),
        ({"user": "u"}, "request_percentage", 1.5, ErrorCode.NONE),
    ],
)
def test_invalid_quotas_are_refused(
    client: Client, entity: dict[str, str | None], key: str, value: float, code: ErrorCode
) -> None:
    assert change(client, entry(entity, **{key: value}), validate_only=True) == [code]


def test_entities_and_quotas_that_are_named_twice(client: Client) -> None:
    user = f"twice-{client.client_id}"
    first, second = entry({"user": user}, producer_byte_rate=1.0), entry({"user": user}, producer_byte_rate=2.0)
    assert change(client, first, second) == [ErrorCode.INVALID_REQUEST]
    expected = {f"user={user}": {"producer_byte_rate": 1.0}}
    eventually(lambda: formatted(describe(client, ("user", EXACT, user))), expected, within_s=PATIENCE_S)
    part = (RequestedEntityData(entity_type="user", entity_name=user),)
    ops = tuple(OpData(key="consumer_byte_rate", value=value) for value in (1.0, 2.0))
    assert change(client, RequestedEntryData(entity=part, ops=ops)) == [ErrorCode.INVALID_REQUEST]
    assert formatted(describe(client, ("user", EXACT, user))) == expected
