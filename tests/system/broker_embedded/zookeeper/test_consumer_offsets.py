"""OffsetCommit v0 and OffsetFetch v0 of a broker with a real ZooKeeper, which stops responding, ends and comes back."""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from dirty_equals import Contains, HasLen
from kazoo.client import KazooClient
from kazoo.protocol.connection import _CONNECTION_DROP

from broker_embedded._zookeeper.consumer_offsets import ConsumerOffsets
from broker_embedded._zookeeper.session import ZooKeeperSession
from broker_embedded.testing import EmbeddedBroker, EmbeddedZooKeeper
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages.list_groups import ListGroupsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitResponse
from spark_kafka_native._protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._zookeeper.errors import ConnectionLost
from tests.support.requests.of_topic import offset_commit, offset_fetch
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.servers.kafka_on_zookeeper import zookeeper_client
from tests.support.waiting import eventually
from tests.support.zookeeper.sessions_in_memory import SessionInMemory
from tests.support.zookeeper.znodes_in_memory import ZooKeeperInMemory

RELEASE = "3.9"
"""The last release with v0."""
PARTITIONS = 20
SHORT_MS, LONG_MS = 1500, 60_000
"""Session timeouts: a test waits for the end of the first, and none for that of the second."""
NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR
Offset = tuple[int, int]


def settings(connect: str, timeout_ms: int = LONG_MS, **others: object) -> dict[str, object]:
    fields = {key.replace("_", "."): value for key, value in others.items()}
    return {
        "as.version": RELEASE,
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": timeout_ms,
        "offsets.topic.num.partitions": 1,
        **fields,
    }


@pytest.fixture
def broker(zookeeper_connect: str) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": PARTITIONS}, settings=settings(zookeeper_connect)) as running:
        yield running


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        yield connected


@pytest.fixture
def zookeeper(zookeeper_connect: str) -> Iterator[KazooClient]:
    with zookeeper_client(zookeeper_connect) as connected:
        yield connected


@pytest.fixture
def server() -> Iterator[EmbeddedZooKeeper]:
    """A server of its own, with long sessions, which a test may stop."""
    with EmbeddedZooKeeper(settings={"maxSessionTimeout": LONG_MS}) as running:
        yield running


def session_of(broker: EmbeddedBroker) -> ZooKeeperSession:
    """The broker's session with ZooKeeper."""
    zookeeper = broker._server._zookeeper
    assert zookeeper is not None
    return zookeeper._session


def codes(response: OffsetCommitResponse) -> dict[int, ErrorCode]:
    """The error code of each partition."""
    return {part.partition_index: ErrorCode.of(part.error_code) for part in response.topics[0].partitions}


def commit(client: RawClient, offset: int, *partitions: int, group: str = "g", version: int = 0) -> set[ErrorCode]:
    """The error codes of a commit."""
    return set(codes(client.ask(offset_commit("t", offset, *partitions, group_id=group), version)).values())


def fetch(client: RawClient, *partitions: int, group: str = "g", version: int = 0) -> dict[int, Offset]:
    """Offset and error code of each partition."""
    found = client.ask(offset_fetch("t", *partitions, version=version, group_id=group), version).topics[0].partitions
    return {part.partition_index: (part.committed_offset, part.error_code) for part in found}


def committed(zookeeper: KazooClient, group: str = "g") -> dict[int, bytes]:
    """The data of the znodes of a group's offsets."""
    path = f"/consumers/{group}/offsets/t"
    return {int(index): zookeeper.get(f"{path}/{index}")[0] for index in zookeeper.get_children(path)}


def assert_others_are_served(broker: EmbeddedBroker) -> None:
    """Another client gets responses to all other requests."""
    with RawClient(broker.bootstrap_servers) as other:
        assert other.ask(MetadataRequest(topics=None), 1).topics[0].name
        assert commit(other, 7, 0, group="of-kafka", version=2) == {NONE}
        assert fetch(other, 0, group="of-kafka", version=2) == {0: (7, NONE)}


def test_offsets_of_v0_are_in_zookeeper_and_those_of_later_versions_are_not(
    client: RawClient, zookeeper: KazooClient
) -> None:
    assert fetch(client, 0) == {0: (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert commit(client, 5, 0, 1) == {NONE}
    assert commit(client, 6, 1) == {NONE}
    assert fetch(client, 0, 1, 2) == {0: (5, NONE), 1: (6, NONE), 2: (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    assert committed(zookeeper) == {0: b"5", 1: b"6"}
    assert zookeeper.get("/consumers/g/offsets/t/0")[1].ephemeralOwner == 0
    assert client.ask(ListGroupsRequest(), 0).groups == ()
    assert commit(client, 9, 0, 2, version=2) == {NONE}
    assert fetch(client, 0, 1, 2, version=1) == {0: (9, NONE), 1: (-1, NONE), 2: (9, NONE)}
    assert committed(zookeeper) == {0: b"5", 1: b"6"}


def test_partitions_that_do_not_exist_have_errors_and_no_znodes(client: RawClient, zookeeper: KazooClient) -> None:
    response = client.ask(offset_commit("t", 5, 0, PARTITIONS, -1), 0)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(response) == {0: NONE, PARTITIONS: unknown, -1: unknown}
    assert codes(client.ask(offset_commit("missing", 5, 0), 0)) == {0: unknown}
    topics = tuple(OffsetFetchRequestTopic(name=name, partition_indexes=(0, PARTITIONS)) for name in ("t", "missing"))
    found = client.ask(OffsetFetchRequest(group_id="g", topics=topics), 0).topics
    assert [[(part.committed_offset, part.error_code) for part in topic.partitions] for topic in found] == [
        [(5, NONE), (-1, unknown)],
        [(-1, unknown), (-1, unknown)],
    ]
    assert committed(zookeeper) == {0: b"5"}
    assert zookeeper.get_children("/consumers/g/offsets") == ["t"]


def test_metadata_is_limited_and_not_stored(client: RawClient, zookeeper: KazooClient) -> None:
    for size, expected in ((4096, NONE), (4097, ErrorCode.OFFSET_METADATA_TOO_LARGE)):
        request = offset_commit("t", size, 0, metadata="x" * size)
        assert codes(client.ask(request, 0)) == {0: expected}
    assert committed(zookeeper) == {0: b"4096"}
    found = client.ask(offset_fetch("t", 0, version=0), 0).topics[0].partitions[0]
    assert (found.committed_offset, found.metadata) == (4096, "")


def test_offsets_stay_when_the_topic_is_deleted_and_when_the_broker_restarts(
    broker: EmbeddedBroker, zookeeper: KazooClient
) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        assert commit(client, 5, 0) == {NONE}
        broker.delete_topic("t")
        eventually(lambda: zookeeper.exists("/brokers/topics/t"), None)
        assert fetch(client, 0) == {0: (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    broker.restart()
    broker.create_topic("t")
    with RawClient(broker.bootstrap_servers) as client:
        assert fetch(client, 0) == {0: (5, NONE)}


def test_without_zookeeper_offsets_of_v0_are_in_the_log() -> None:
    with (
        EmbeddedBroker(topics={"t": 1}, settings={"as.version": RELEASE}) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert commit(client, 5, 0) == {NONE}
        assert fetch(client, 0, version=0) == fetch(client, 0, version=1) == {0: (5, NONE)}


def test_clients_commit_at_the_same_time(broker: EmbeddedBroker, zookeeper: KazooClient) -> None:
    """All create the same znodes at first, and each the last offset of a partition of its own."""
    clients, rounds = range(8), range(10)

    def run(number: int) -> list[set[ErrorCode]]:
        with RawClient(broker.bootstrap_servers) as client:
            everywhere = [commit(client, offset, *range(PARTITIONS)) for offset in rounds]
            return [*everywhere, commit(client, number, number, group="own"), commit(client, 7, PARTITIONS - 1)]

    with ThreadPoolExecutor(len(clients)) as pool:
        done = list(pool.map(run, clients))
    assert done == [[{NONE}] * (len(rounds) + 2)] * len(clients)
    assert committed(zookeeper, "own") == {number: str(number).encode() for number in clients}
    assert committed(zookeeper).keys() == set(range(PARTITIONS))


def test_a_request_waits_for_zookeeper_and_other_clients_do_not(server: EmbeddedZooKeeper) -> None:
    with (
        EmbeddedBroker(topics={"t": PARTITIONS}, settings=settings(server.connect_string)) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        server.pause()
        client.send(request_bytes(offset_commit("t", 5, *range(PARTITIONS)), 0))
        eventually(lambda: broker.requests("OffsetCommit"), HasLen(1))
        assert_others_are_served(broker)
        assert client.is_silent()
        server.resume()
        assert set(codes(decoded(client)).values()) == {NONE}
        assert fetch(client, *range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), (5, NONE))


def decoded(client: RawClient) -> OffsetCommitResponse:
    """The next response."""
    response = decode_response(OffsetCommitResponse, 0, client.frame())[1]
    assert isinstance(response, OffsetCommitResponse)
    return response


def test_a_request_in_flight_is_repeated_after_a_lost_connection(server: EmbeddedZooKeeper) -> None:
    """The server stays: kazoo waits for the session timeout if its connection is opened while a server starts."""
    with (
        EmbeddedBroker(topics={"t": 1}, settings=settings(server.connect_string)) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert commit(client, 4, 0) == {NONE}
        connection = session_of(broker)._client
        server.pause()
        client.send(request_bytes(offset_commit("t", 5, 0), 0))
        eventually(lambda: [type(request).__name__ for request, *_ in list(connection._pending)], Contains("SetData"))
        connection._call(_CONNECTION_DROP, connection.handler.async_result())
        eventually(lambda: connection.state, "SUSPENDED")
        server.resume()
        assert codes(decoded(client)) == {0: NONE}
        assert fetch(client, 0) == {0: (5, NONE)}


def test_requests_fail_while_zookeeper_is_away_and_succeed_when_it_is_back(server: EmbeddedZooKeeper) -> None:
    with (
        EmbeddedBroker(topics={"t": 1}, settings=settings(server.connect_string, SHORT_MS)) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        assert commit(client, 4, 0) == {NONE}
        server.kill()
        assert commit(client, 5, 0) == {UNKNOWN}
        assert fetch(client, 0) == {0: (-1, UNKNOWN)}
        assert_others_are_served(broker)
        server.start()
        eventually(lambda: commit(client, 6, 0), {NONE})
        assert fetch(client, 0) == {0: (6, NONE)}


def test_a_request_is_executed_in_the_session_after_an_expired_one(
    broker: EmbeddedBroker, client: RawClient, zookeeper: KazooClient, zookeeper_connect: str
) -> None:
    thief = KazooClient(zookeeper_connect, client_id=session_of(broker)._client.client_id)
    thief.start()
    thief.stop()  # the end of the session
    thief.close()
    assert commit(client, 5, 0) == {NONE}
    assert committed(zookeeper) == {0: b"5"}


def test_a_broker_stops_while_requests_wait_for_zookeeper(server: EmbeddedZooKeeper) -> None:
    broker = EmbeddedBroker(topics={"t": PARTITIONS}, settings=settings(server.connect_string))
    broker.start()
    with RawClient(broker.bootstrap_servers) as client:
        server.pause()
        client.send(request_bytes(offset_commit("t", 5, *range(PARTITIONS)), 0))
        eventually(lambda: broker.requests("OffsetCommit"), HasLen(1))
        broker.stop()
        assert set(codes(decoded(client)).values()) == {UNKNOWN}
    server.resume()


async def test_requests_without_a_response_fail_after_the_time_limit(caplog: pytest.LogCaptureFixture) -> None:
    session = SessionInMemory(ZooKeeperInMemory())
    session.responds.clear()
    offsets = ConsumerOffsets(session, 50)
    waiting: Mapping[TopicPartition, int] = {TopicPartition("t", index): 5 for index in range(100)}
    first, second = await asyncio.gather(offsets.store("g", waiting), offsets.store("h", waiting))
    assert (first, second) == (set(), set())
    assert session.waiting == 0
    problem = "ZooKeeper has not responded within 50 ms (zookeeper.session.timeout.ms)"
    assert sorted(caplog.messages) == [f"offsets of group '{group}' are not stored: {problem}" for group in "gh"]
    session.responds.set()
    assert await offsets.store("g", waiting) == waiting.keys()


async def test_a_request_is_repeated_after_a_lost_connection() -> None:
    session, partition = SessionInMemory(ZooKeeperInMemory()), TopicPartition("t", 0)

    async def lose() -> None:
        raise ConnectionLost("the connection was lost")

    session.before("replace /consumers/g/offsets/t/0", lose)
    session.before("get /consumers/g/offsets/t/0", lose)
    offsets = ConsumerOffsets(session, LONG_MS)
    assert await offsets.store("g", {partition: 5}) == {partition}
    assert await offsets.read("g", [partition]) == {partition: 5}
