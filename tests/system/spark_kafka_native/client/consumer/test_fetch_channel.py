import threading
import uuid
from collections.abc import Iterator

import pytest

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.cluster.metadata import Node, PartitionLeader
from spark_kafka_native.client.consumer.fetch_channel import FetchChannel
from spark_kafka_native.client.errors import TopicRecreated
from spark_kafka_native.net.deadline import Deadline
from spark_kafka_native.net.errors import BrokerUnreachable, RequestTimeout
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages import FetchRequest, FetchResponse, MetadataRequest
from spark_kafka_native.protocol.messages.fetch import FetchableTopicResponse, PartitionData
from spark_kafka_native.protocol.schema import Response
from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.batch import read_header
from tests.support.record_batches import batch_of
from tests.support.scripted_broker import (
    KAFKA_0_11,
    KAFKA_2_1,
    KAFKA_4_3,
    Drop,
    HalfFrame,
    Pass,
    Raw,
    Refuse,
    Respond,
    ScriptedCluster,
    Silent,
    Step,
    Versions,
    WrongCorrelation,
)
from tests.support.waiting import eventually

T0 = TopicPartition("t", 0)
PLENTY = 5_000


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with ScriptedCluster(brokers=2, topics={"t": 1}) as running:
        for _ in range(5):
            running.partition("t").append(batch_of([b"v"] * 10))
        yield running


@pytest.fixture
def cluster(brokers: ScriptedCluster) -> Iterator[Cluster]:
    with Cluster(brokers.config()) as made:
        yield made


@pytest.fixture
def channel(cluster: Cluster) -> Iterator[FetchChannel]:
    made = FetchChannel(cluster, T0, isolation=0)
    yield made
    made.close()


def first_offset(part: PartitionData) -> int:
    assert isinstance(part.records, memoryview)
    return read_header(part.records, whole=False).base_offset


def take(channel: FetchChannel, offset: int, timeout_ms: float = PLENTY) -> int:
    return first_offset(channel.take(offset, Deadline.after_ms(timeout_ms)))


def fetch_offsets(brokers: ScriptedCluster) -> list[int]:
    return [request.topics[0].partitions[0].fetch_offset for request in brokers.requests(FetchRequest)]


def test_answers_are_those_of_the_offsets_asked_for(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    assert [take(channel, offset) for offset in (0, 10, 25, 49)] == [0, 10, 20, 40]
    assert channel.metrics.requests == 4
    assert channel.metrics.retries == 0
    assert channel.metrics.bytes_fetched > 0


def test_the_request_says_what_the_configuration_says(brokers: ScriptedCluster) -> None:
    config = brokers.config(
        fetch_max_wait_ms=7, fetch_min_bytes=3, fetch_max_bytes=900, max_partition_fetch_bytes=800, client_rack="r1"
    )
    brokers.partition("t").leader_epoch = 6
    with Cluster(config) as cluster:
        channel = FetchChannel(cluster, T0, isolation=1)
        channel.take(0, Deadline.after_ms(PLENTY))
        channel.close()
    (request,) = brokers.requests(FetchRequest)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.rack_id) == (7, 3, 900, "r1")
    assert (request.isolation_level, request.session_id, request.session_epoch) == (1, 0, -1)
    part = request.topics[0].partitions[0]
    assert (part.partition_max_bytes, part.current_leader_epoch, part.last_fetched_epoch) == (800, 6, -1)


@pytest.mark.parametrize(
    ("versions", "topic_ids", "spoken"), [(KAFKA_0_11, False, 5), (KAFKA_2_1, False, 10), (KAFKA_4_3, True, 18)]
)
def test_every_generation_of_brokers_is_asked_in_its_own_version(
    versions: Versions, topic_ids: bool, spoken: int
) -> None:
    with ScriptedCluster(topics={"t": 1}, versions=versions, topic_ids=topic_ids) as brokers:
        brokers.partition("t").append(batch_of([b"v"]))
        with Cluster(brokers.config()) as cluster:
            channel = FetchChannel(cluster, T0, isolation=0)
            assert take(channel, 0) == 0
            channel.close()
        assert [version for _, request, version in brokers.received if isinstance(request, FetchRequest)] == [spoken]


def test_topics_without_ids_are_asked_for_by_name_of_new_brokers_too() -> None:
    with ScriptedCluster(topics={"t": 1}, topic_ids=False) as brokers:
        brokers.partition("t").append(batch_of([b"v"]))
        with Cluster(brokers.config()) as cluster:
            channel = FetchChannel(cluster, T0, isolation=0)
            assert take(channel, 0) == 0
            channel.close()
        assert brokers.received[-1][2] == 12


def test_asked_ahead_is_asked_once(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    channel.ask(10)
    assert fetch_offsets(brokers) == [], "there is no connection yet"
    take(channel, 0)
    channel.ask(10)
    channel.ask(20)
    assert take(channel, 10) == 10
    assert fetch_offsets(brokers) == [0, 10]


def test_what_was_asked_ahead_and_is_not_wanted_is_dropped(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    take(channel, 0)
    channel.ask(10)
    assert take(channel, 30) == 30
    eventually(lambda: sorted(fetch_offsets(brokers)), [0, 10, 30])  # over two connections, in any order


def test_a_connection_that_broke_while_nobody_looked_is_replaced(
    brokers: ScriptedCluster, channel: FetchChannel
) -> None:
    take(channel, 0)
    channel.ask(10)
    brokers.brokers[1].drop_connections()
    assert take(channel, 10) == 10
    brokers.brokers[1].drop_connections()
    channel.ask(20)
    assert take(channel, 20) == 20


def test_a_leader_given_saves_the_question_for_metadata(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with Cluster(brokers.config()) as driver:
        leader = driver.leader(T0)
    before = len(brokers.requests(MetadataRequest))
    channel = FetchChannel(cluster, T0, isolation=0, leader=leader)
    assert take(channel, 0) == 0
    channel.close()
    assert len(brokers.requests(MetadataRequest)) == before


def test_a_leader_given_that_is_gone_is_looked_up_anew(brokers: ScriptedCluster, cluster: Cluster) -> None:
    gone = Node(node_id=9, host="127.0.0.1", port=1)
    channel = FetchChannel(cluster, T0, isolation=0, leader=PartitionLeader(node=gone))
    assert take(channel, 0) == 0
    channel.close()


def test_a_moved_leader_is_followed_at_the_same_offset(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    assert take(channel, 10) == 10
    brokers.move_leader("t", 0, to=2)
    channel.ask(20)
    assert take(channel, 20) == 20
    assert [node for node, request, _ in brokers.received if isinstance(request, FetchRequest)] == [1, 1, 2]


def test_a_dead_leaders_successor_is_followed(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    assert take(channel, 10) == 10
    brokers.brokers[1].stop()
    timer = threading.Timer(0.05, brokers.move_leader, ("t", 0, 2))
    timer.start()
    assert take(channel, 20) == 20
    timer.join()


@pytest.mark.parametrize(
    "step",
    [
        Drop(),
        HalfFrame(2),
        HalfFrame(70),
        WrongCorrelation(),
        Raw(b"\xff" * 9),
        Raw(b"GARBAGE!"),
        *[
            Refuse(code)
            for code in (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.FENCED_LEADER_EPOCH,
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.INCONSISTENT_TOPIC_ID,
                ErrorCode.UNKNOWN_SERVER_ERROR,
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.REPLICA_NOT_AVAILABLE,
                ErrorCode.OFFSET_NOT_AVAILABLE,
                ErrorCode.CORRUPT_MESSAGE,
            )
        ],
    ],
    ids=str,
)
def test_passing_trouble_ends_in_the_same_answer(brokers: ScriptedCluster, channel: FetchChannel, step: Step) -> None:
    brokers.script(FetchRequest, Pass(), step, step)
    assert take(channel, 0) == 0
    channel.ask(20)
    assert take(channel, 20) == 20
    assert channel.metrics.retries == 2


def test_an_error_of_the_whole_answer_counts_too(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    brokers.script(FetchRequest, Respond(lambda _: FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)))
    assert take(channel, 0) == 0
    assert channel.metrics.retries == 1


@pytest.mark.parametrize(
    "code",
    [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE],
)
def test_other_errors_are_raised_at_once_and_name_the_partition(
    brokers: ScriptedCluster, channel: FetchChannel, code: ErrorCode
) -> None:
    brokers.script(FetchRequest, Refuse(code))
    with pytest.raises(KafkaError, match="t-0: ") as caught:
        take(channel, 0)
    assert caught.value.code is code


def test_an_answer_without_the_partition_is_an_error(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    brokers.script(FetchRequest, *[Respond(lambda _: FetchResponse())] * 5_000)
    with pytest.raises(KafkaError, match="t-0 is missing from the Fetch answer"):
        take(channel, 0, timeout_ms=600)


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_lasting_trouble_ends_with_the_deadline(
    brokers: ScriptedCluster, channel: FetchChannel, code: ErrorCode
) -> None:
    brokers.script(FetchRequest, *[Refuse(code)] * 5_000)
    with pytest.raises(KafkaError, match="t-0: ") as caught:
        take(channel, 0, timeout_ms=600)
    assert caught.value.code is code


def test_a_silent_broker_ends_with_the_deadline(brokers: ScriptedCluster) -> None:
    brokers.script(FetchRequest, Silent(), Silent())
    with Cluster(brokers.config(request_timeout_ms=200)) as cluster:
        channel = FetchChannel(cluster, T0, isolation=0)
        # Whether time is left to look for another leader depends on the machine; the silence is told either way.
        with pytest.raises((RequestTimeout, BrokerUnreachable), match="no answer to Fetch"):
            take(channel, 0, timeout_ms=250)
        assert take(channel, 0) == 0
        channel.close()


def test_when_all_brokers_are_gone_they_are_named(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    take(channel, 0)
    ports = [broker.port for broker in brokers.brokers.values()]
    for broker in brokers.brokers.values():
        broker.stop()
    with pytest.raises(BrokerUnreachable) as caught:
        take(channel, 10, timeout_ms=600)
    assert {address.port for address in caught.value.tried} == set(ports)


def test_a_topic_made_again_under_its_name_is_not_read(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    take(channel, 0)
    brokers.state.create("t", 1)
    with pytest.raises(TopicRecreated, match="t-0: the topic was deleted and created again"):
        take(channel, 10)


def test_a_topic_made_again_since_the_read_was_planned_is_not_read(brokers: ScriptedCluster, cluster: Cluster) -> None:
    planned = PartitionLeader(node=cluster.leader(T0).node, topic_id=uuid.uuid4())
    channel = FetchChannel(cluster, T0, isolation=0, leader=planned)
    with pytest.raises(TopicRecreated, match=str(planned.topic_id)):
        take(channel, 0)


def test_a_deleted_topic_is_named_in_bounded_time(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    take(channel, 0)
    del brokers.state.topics["t"]
    with pytest.raises(KafkaError, match="topic t: ") as caught:
        take(channel, 10)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def redirect(to: int) -> Respond:
    def respond(request: FetchRequest) -> Response:
        part = PartitionData(partition_index=0, preferred_read_replica=to, records=b"")
        topic = FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=(part,))
        return FetchResponse(responses=(topic,))

    return Respond(respond)


def served(brokers: ScriptedCluster) -> Respond:
    """What a follower answers: the scripted broker 2 leads nothing."""

    def respond(request: FetchRequest) -> Response:
        offset = request.topics[0].partitions[0].fetch_offset
        part = PartitionData(partition_index=0, records=brokers.partition("t").read(offset, 1))
        return FetchResponse(
            responses=(FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=(part,)),)
        )

    return Respond(respond)


def test_a_closer_replica_is_read_when_the_leader_names_one(brokers: ScriptedCluster, channel: FetchChannel) -> None:
    brokers.script(FetchRequest, redirect(2), broker=1)
    brokers.script(FetchRequest, served(brokers), served(brokers), broker=2)
    assert take(channel, 0) == 0
    channel.ask(10)
    assert take(channel, 10) == 10
    assert [node for node, request, _ in brokers.received if isinstance(request, FetchRequest)] == [1, 2, 2]


@pytest.mark.parametrize(
    "step", [Refuse(ErrorCode.OFFSET_OUT_OF_RANGE), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER), Drop()], ids=str
)
def test_a_replica_that_cannot_serve_sends_us_back_to_the_leader(
    brokers: ScriptedCluster, channel: FetchChannel, step: Step
) -> None:
    brokers.script(FetchRequest, redirect(2), broker=1)
    brokers.script(FetchRequest, step, broker=2)
    assert take(channel, 20) == 20
    assert [node for node, request, _ in brokers.received if isinstance(request, FetchRequest)] == [1, 2, 1]


def test_close_gives_a_clean_connection_back_and_closes_another(
    brokers: ScriptedCluster, cluster: Cluster, channel: FetchChannel
) -> None:
    take(channel, 0)
    used = channel._connection
    assert used is not None
    channel.close()
    assert not used.closed
    assert take(channel, 10) == 10
    assert channel._connection is used
    channel.ask(20)
    channel.close()
    assert used.closed


def test_disconnect_always_closes(channel: FetchChannel) -> None:
    take(channel, 0)
    used = channel._connection
    assert used is not None
    channel.disconnect()
    channel.disconnect()
    assert used.closed
