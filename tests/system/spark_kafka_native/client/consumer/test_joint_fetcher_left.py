"""Several partitions at once, and what becomes of those that something is wrong with: they are left to others."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.client.cluster.metadata import PartitionLeader
from spark_kafka_native.client.consumer.joint_fetcher import JointFetcher, PartitionRange, Place
from spark_kafka_native.net.errors import AuthenticationFailed
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages import FetchRequest, FetchResponse, MetadataRequest
from spark_kafka_native.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    PartitionData,
)
from spark_kafka_native.protocol.schema import Response
from tests.support.fetched_logs import LAST, ROWS, fill
from tests.support.guards import Guard
from tests.support.joint_reading import ALL, PARTITIONS, asked, ranges, read, read_on, tp, two_leaders, whole
from tests.support.record_batches import batch_of
from tests.support.scripted_broker import (
    KAFKA_0_11,
    Drop,
    HalfFrame,
    Pass,
    Raw,
    Refuse,
    Respond,
    ScriptedCluster,
    Silent,
    Step,
    WrongCorrelation,
)


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with two_leaders(PARTITIONS) as running:
        yield running


@pytest.fixture
def cluster(brokers: ScriptedCluster) -> Iterator[Cluster]:
    with Cluster(brokers.config(max_partition_fetch_bytes=2_000)) as made:
        yield made


def changed(brokers: ScriptedCluster, number: int, change: Callable[[PartitionData], PartitionData | None]) -> Respond:
    """An answer with a batch of every partition, but another part of one of them."""

    def respond(request: FetchRequest) -> Response:
        parts = []
        for wanted in request.topics[0].partitions:
            records = brokers.partition("t", wanted.partition).read(wanted.fetch_offset, 1)
            part: PartitionData | None = PartitionData(partition_index=wanted.partition, records=records)
            if part is not None and wanted.partition == number:
                part = change(part)
            parts += [] if part is None else [part]
        topic = FetchableTopicResponse(
            topic=request.topics[0].topic, topic_id=request.topics[0].topic_id, partitions=tuple(parts)
        )
        return FetchResponse(responses=(topic,))

    return Respond(respond)


CHANGES: dict[str, Callable[[PartitionData], PartitionData | None]] = {
    "missing": lambda part: None,
    "error": lambda part: replace(part, error_code=ErrorCode.KAFKA_STORAGE_ERROR, records=b""),
    "diverged": lambda part: replace(part, diverging_epoch=EpochEndOffset(epoch=0, end_offset=7), records=b""),
    "preferred": lambda part: replace(part, preferred_read_replica=2, records=b""),
    "no batch": lambda part: replace(part, records=b"\0" * 70),
    "cut off": lambda part: replace(part, records=bytes(part.records or b"")[:100]),  # type: ignore[arg-type]
    # At first, it would not be.
    "before": lambda part: replace(part, records=bytes(batch_of([b"0"]))),
}


@pytest.mark.parametrize(
    ("change", "at_first"), [*((change, False) for change in CHANGES), *((change, True) for change in CHANGES)][:-1]
)
def test_a_partition_that_something_is_wrong_with_is_left_where_it_stands(
    brokers: ScriptedCluster, cluster: Cluster, change: str, at_first: bool
) -> None:
    brokers.script(FetchRequest, *[] if at_first else [Pass()], changed(brokers, 2, CHANGES[change]), broker=1)
    wanted = ranges([0, 2, 4])
    reading = read(cluster, wanted)
    (stands,) = reading.left_at.values()
    assert list(reading.left) == [tp(2)]
    assert (stands == 0) == at_first
    assert reading.offsets.pop(tp(2), []) == list(range(stands))
    assert reading.offsets == whole(ranges([0, 4]))
    assert all(2 not in request for request in asked(brokers)[2:])


def test_places_tell_the_epoch_of_the_record_before(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.state.create("t", 1)
    partition = brokers.partition("t")
    for partition.leader_epoch in (3, 4):
        fill(partition, batches=1)
    partition.leader_epoch = 5
    with Cluster(brokers.config(max_partition_fetch_bytes=1)) as one_by_one:
        brokers.script(FetchRequest, Pass(), Drop())
        assert read(one_by_one, ranges([0], 0, 100)).left == {tp(0): Place(position=50, epoch=3)}
        assert brokers.requests(FetchRequest)[1].topics[0].partitions[0].last_fetched_epoch == 3
    assert read(cluster, ranges([0], 0, 120)).left == {tp(0): Place(position=100, epoch=4)}


def test_batches_of_a_later_leader_are_left() -> None:
    """A broker that is too old to compare epochs answers whatever leader was meant."""
    with ScriptedCluster(topics={"t": 2}, versions=KAFKA_0_11) as brokers, Cluster(brokers.config()) as cluster:
        for number in range(2):
            brokers.partition("t", number).leader_epoch = 3 + number
            fill(brokers.partition("t", number), batches=1)
        node = cluster.leader(tp(0)).node
        wanted = [replace(each, leader=PartitionLeader(node=node, leader_epoch=3)) for each in ranges([0, 1], end=ROWS)]
        assert read(cluster, wanted).left == {tp(1): Place(position=0, epoch=-1)}


TROUBLES: list[Step] = [
    Drop(),
    HalfFrame(3),
    HalfFrame(300),
    WrongCorrelation(),
    Raw(b"\xff" * 16),
    Raw(b"\0\0\0\x10GARBAGEGARBAGE!!"),
    Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    Refuse(ErrorCode.OFFSET_OUT_OF_RANGE),
    Refuse(ErrorCode.UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("step", TROUBLES, ids=str)
def test_trouble_with_one_leader_leaves_what_it_leads_and_nothing_else(
    brokers: ScriptedCluster, cluster: Cluster, step: Step, after: int
) -> None:
    brokers.script(FetchRequest, *[Pass()] * after, step, broker=1)
    reading = read(cluster, ALL)
    assert list(reading.left) == [tp(0), tp(2), tp(4)]
    assert {number: reading.offsets.get(tp(number), []) for number in (0, 2, 4)} == {
        number: list(range(position)) for number, position in reading.left_at.items()
    }
    assert all((position > 0) == (after > 0) for position in reading.left_at.values())
    assert {partition: reading.offsets[partition] for partition in (tp(1), tp(3), tp(5))} == whole(ranges([1, 3, 5]))


@pytest.mark.parametrize("step", TROUBLES, ids=str)
def test_what_is_left_is_read_on_without_loss_or_repetition(
    brokers: ScriptedCluster, cluster: Cluster, step: Step
) -> None:
    brokers.script(FetchRequest, *[Pass()] * 3, *[step] * 3)
    wanted = ranges(range(PARTITIONS), 7, LAST - 7)
    assert read_on(cluster, wanted).offsets == whole(wanted)


def test_a_leader_that_moves_leaves_its_partition(brokers: ScriptedCluster, cluster: Cluster) -> None:
    with JointFetcher(cluster, ALL, target_rows=ROWS) as joint:
        rows = iter(joint)
        next(rows)
        brokers.move_leader("t", 4, to=2)
        for _ in rows:
            pass
    assert list(joint.left) == [tp(4)]


@pytest.mark.parametrize("at", [70, 17, 16, 8, 58], ids=["payload", "crc", "magic", "length", "count"])
@pytest.mark.parametrize("number", [0, 1, 4, 19])
@pytest.mark.usefixtures("each_kernel")
def test_a_corrupt_batch_leaves_its_partition_alone(
    brokers: ScriptedCluster, cluster: Cluster, number: int, at: int
) -> None:
    batches = brokers.partition("t", 2).batches
    batches[number] = batches[number][:at] + bytes([batches[number][at] ^ 1]) + batches[number][at + 1 :]
    reading = read(cluster, ALL)
    (position,) = reading.left_at.values()
    assert list(reading.left) == [tp(2)]
    assert position <= number * ROWS
    assert reading.offsets.pop(tp(2), []) == list(range(position))
    assert reading.offsets == whole(ranges([0, 1, 3, 4, 5]))


def test_a_first_batch_that_is_cut_off_is_left() -> None:
    """A broker older than KIP-74 has no whole batch for who asks for less."""
    with ScriptedCluster(topics={"t": 2}) as brokers:
        for number in range(2):
            fill(brokers.partition("t", number))

        def cut(part: PartitionData) -> PartitionData:
            assert isinstance(part.records, bytes)
            return replace(part, records=part.records[:100])

        brokers.script(FetchRequest, changed(brokers, 1, cut))
        with Cluster(brokers.config()) as cluster:
            wanted = ranges([0, 1])
            assert read_on(cluster, wanted).offsets == whole(wanted)


def test_who_has_nothing_is_left_once_nobody_has_anything(brokers: ScriptedCluster, cluster: Cluster) -> None:
    """A ``Fetcher`` waits for what should come; here nobody else waits for that."""
    wanted = ranges([0, 2], 0, LAST) + ranges([4], LAST - 10, LAST + 5)
    reading = read(cluster, wanted)
    assert reading.left_at == {4: LAST}
    assert reading.offsets == whole(ranges([0, 2]) + ranges([4], LAST - 10, LAST))
    assert asked(brokers)[-1] == {4: LAST}


def test_nothing_beyond_the_last_stable_offset_is_waited_for(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.partition("t", 2).last_stable_offset = 0
    reading = read(cluster, ranges([0, 2]), isolation=1)
    assert reading.left_at == {2: 0}


def test_a_silent_broker_is_waited_for_no_longer_than_the_options_say(brokers: ScriptedCluster) -> None:
    brokers.script(FetchRequest, Silent(), broker=1)
    with Cluster(brokers.config()) as cluster:
        reading = read(cluster, ALL, timeout_ms=600)
    assert reading.left_at == {0: 0, 2: 0, 4: 0}


def test_partitions_that_nobody_leads_are_left(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.partition("t", 2).leader = 9
    wanted = [*ranges([0, 1, 2, 77]), PartitionRange(partition=tp(0, "u"), from_offset=0, until_offset=1)]
    reading = read(cluster, wanted)
    assert list(reading.left) == [tp(2), tp(77), tp(0, "u")]
    assert reading.offsets == whole(ranges([0, 1]))
    assert len(brokers.requests(MetadataRequest)) == 1, "a Fetcher asks until there is a leader"


def test_a_leader_that_cannot_be_reached_is_left(brokers: ScriptedCluster, cluster: Cluster) -> None:
    cluster.leaders([each.partition for each in ALL])
    brokers.brokers[1].stop()
    reading = read(cluster, ALL)
    assert reading.left_at == {0: 0, 2: 0, 4: 0}


def test_without_any_broker_all_is_left(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for broker in brokers.brokers.values():
        broker.stop()
    assert read(cluster, ALL, timeout_ms=600).left_at == dict.fromkeys(range(PARTITIONS), 0)


def test_distrust_is_not_left_to_anybody() -> None:
    guard = Guard(mechanisms=("PLAIN",), users={"alice": "right"})
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{module} required username="alice" password="wrong";',
    }
    with (
        ScriptedCluster(topics={"t": 2}, guard=guard) as brokers,
        Cluster(brokers.config(**login)) as cluster,
        pytest.raises(AuthenticationFailed),
    ):
        read(cluster, ranges([0, 1]))
