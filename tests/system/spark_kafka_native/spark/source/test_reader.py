import functools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_kafka_native._client.cluster.cluster import UNKNOWN_TOPIC_TRIES
from spark_kafka_native._client.cluster.shared import close_shared_clusters, shared_cluster
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.list_offsets import ListOffsetsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.schema import Response
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._spark.errors import DataLossError, TaskError
from spark_kafka_native._spark.options.parsed import SourceOptions
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.planning.packing import Task
from spark_kafka_native._spark.planning.ranges import range_of
from spark_kafka_native._spark.source.layout import Layout, layout_of
from spark_kafka_native._spark.source.reader import read_task
from spark_kafka_native._spark.source.schema import source_schema
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import KAFKA_4_3, ScriptedCluster
from tests.support.scripted.fetched_logs import LAST, ROWS, fill
from tests.support.scripted.partitions import FakePartition
from tests.support.scripted.security import Guard
from tests.support.scripted.several_partitions import two_leaders
from tests.support.scripted.steps import Drop, Pass, Refuse, Respond, Step

PARTITIONS = 4
LAYOUT = layout_of(source_schema(include_headers=False))

pytestmark = pytest.mark.feature("more.maxPartitions")


@pytest.fixture(autouse=True)
def _clusters_of_their_own() -> Iterator[None]:
    yield
    close_shared_clusters()


@pytest.fixture
def brokers() -> Iterator[ScriptedCluster]:
    with two_leaders(PARTITIONS) as running:
        yield running


def options(brokers: ScriptedCluster, **given: str) -> SourceOptions:
    known = {
        "kafka.bootstrap.servers": brokers.bootstrap_servers,
        "kafka.max.partition.fetch.bytes": "2000",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.retry.backoff.ms": "1",
        "kafka.default.api.timeout.ms": "5000",
        "subscribe": "t",
    }
    return parse_source_options(known | {name.replace("__", "."): value for name, value in given.items()}, Query.BATCH)


def task(start: int = 0, end: int = LAST, *, partitions: int = PARTITIONS) -> Task:
    return tuple(range_of(TopicPartition("t", number), start, end) for number in range(partitions))


def led(parsed: SourceOptions, given: Task) -> Task:
    """The same with the leaders of this moment, as a stream plans it."""
    leaders = shared_cluster(parsed.client).leaders([piece.topic_partition for piece in given])
    return tuple(piece._replace(leader=leaders[piece.topic_partition]) for piece in given)


def read(parsed: SourceOptions, given: Task) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = {}
    for batch in read_task(parsed, LAYOUT, given):
        assert batch.schema == LAYOUT.arrow_schema
        for row in batch.to_pylist():
            assert row["topic"] == "t"
            assert row["value"] == b"%d" % row["offset"]
            found.setdefault(row["partition"], []).append(row["offset"])
    return found


def whole(start: int = 0, end: int = LAST) -> dict[int, list[int]]:
    return {number: list(range(start, end)) for number in range(PARTITIONS)}


def after(brokers: ScriptedCluster, fetches: int, action: Callable[[], None]) -> list[int]:
    """Call a function between two Fetches to the broker of the even partitions; return the offsets of that Fetch."""
    offsets: list[int] = []

    def respond(request: FetchRequest) -> Response:
        offsets.extend(part.fetch_offset for part in request.topics[0].partitions)
        action()
        return brokers.brokers[1].carry_out(request, 0)

    brokers.script(FetchRequest, *[Pass()] * fetches, Respond(respond), broker=1)
    return offsets


def test_a_task_without_ranges_reads_nothing(brokers: ScriptedCluster) -> None:
    """Spark runs one task with InputPartition(None) when a batch query has no partitions."""
    assert list(read_task(options(brokers), LAYOUT, None)) == list(read_task(options(brokers), LAYOUT, ())) == []
    assert not brokers.received


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize(("start", "end"), [(0, LAST), (123, 456), (499, 500)])
def test_ranges_are_read_exactly(brokers: ScriptedCluster, start: int, end: int) -> None:
    assert read(options(brokers), task(start, end)) == whole(start, end)


def test_one_range_is_read(brokers: ScriptedCluster) -> None:
    assert read(options(brokers), task(7, 300, partitions=1)) == {0: list(range(7, 300))}


def test_small_partitions_leave_in_one_batch_by_one_fetch() -> None:
    with ScriptedCluster(topics={"t": 20}) as brokers:
        for number in range(20):
            fill(brokers.partition("t", number), batches=1, rows=3)
        (batch,) = read_task(options(brokers), LAYOUT, task(0, 3, partitions=20))
        assert batch.column("partition").to_pylist() == [number for number in range(20) for _ in range(3)]
        assert batch.column("offset").to_pylist() == [0, 1, 2] * 20
        assert len(brokers.requests(FetchRequest)) == 1


def test_batches_have_about_the_target_across_partitions(brokers: ScriptedCluster) -> None:
    for number in range(PARTITIONS):
        brokers.partition("t", number).append(batch_of([b"x"] * 15_000))
    parsed = options(brokers, **{"kafka.max.partition.fetch.bytes": "1000000"})
    sizes = [batch.num_rows for batch in read_task(parsed, LAYOUT, task(LAST, LAST + 15_000))]
    assert sizes == [45_000, 15_000]


def test_columns_that_a_user_has_chosen(brokers: ScriptedCluster) -> None:
    layout: Layout = replace(LAYOUT, columns=tuple(each for each in LAYOUT.columns if each.name == "partition"))
    table = pa.Table.from_batches(list(read_task(options(brokers), layout, task(0, 10))))
    assert Counter(table.column("partition").to_pylist()) == dict.fromkeys(range(PARTITIONS), 10)


def test_open_ends_are_looked_up_once_for_all(brokers: ScriptedCluster) -> None:
    parsed, everything = options(brokers), task(-2, -1)
    assert read(parsed, everything) == whole()
    assert len(brokers.requests(ListOffsetsRequest)) == 2 * 2, "both ends, of each leader"
    fill(brokers.partition("t", 2), batches=1)
    assert read(parsed, everything) == whole() | {2: list(range(LAST + ROWS))}


def test_fetch_errors_neither_lose_nor_repeat_rows(brokers: ScriptedCluster) -> None:
    steps: list[Step] = [Pass(), Pass(), Drop(), Pass(), Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER), Pass(), Drop()]
    brokers.script(FetchRequest, *steps)
    assert read(options(brokers), task(3, LAST - 3)) == whole(3, LAST - 3)


def test_leaders_that_moved_since_the_plan(brokers: ScriptedCluster) -> None:
    parsed = options(brokers)
    planned = led(parsed, task())
    brokers.move_leader("t", 1, to=1)
    brokers.move_leader("t", 2, to=2)
    assert read(parsed, planned) == whole()


def test_reading_may_end_early(brokers: ScriptedCluster) -> None:
    parsed = options(brokers)
    batches = read_task(parsed, LAYOUT, task())
    next(batches)
    batches.close()  # type: ignore[attr-defined]  # as for LIMIT: a generator, though it says iterator
    assert read(parsed, task()) == whole()


# --- losses


@pytest.mark.feature("loss.agedOut")
def test_one_partition_with_a_deleted_start(brokers: ScriptedCluster) -> None:
    brokers.partition("t", 2).log_start = 400
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE\] offsets \[0, 400\) of t-2"):
        read(options(brokers), task())
    assert read(options(brokers, failOnDataLoss="false"), task()) == whole() | {2: list(range(400, LAST))}


@pytest.mark.feature("loss.agedOut", "loss.noDuplicates")
@pytest.mark.parametrize("fail", ["true", "false"])
def test_one_partition_with_records_deleted_during_the_read(brokers: ScriptedCluster, fail: str) -> None:
    partition = brokers.partition("t", 2)
    reached = after(brokers, 2, lambda: setattr(partition, "log_start", 900))
    parsed = options(brokers, failOnDataLoss=fail)
    if fail == "true":
        with pytest.raises(DataLossError, match=r"offsets \[[1-9]\d+, 900\) of t-2 were deleted"):
            read(parsed, task())
    else:
        found = read(parsed, task())
        assert found == whole() | {2: [*range(reached[1]), *range(900, LAST)]}
        assert 0 < reached[1] < 900


def test_one_partition_that_ends_before_its_range(brokers: ScriptedCluster) -> None:
    brokers.partition("t", 1).truncate(500)
    careful = options(brokers)
    with pytest.raises(DataLossError, match=r"offsets \[500, 1000\) of t-1 do not exist"):
        read(careful, task(600))
    others = {number: list(range(600, LAST)) for number in (0, 2, 3)}
    assert read(options(brokers, failOnDataLoss="false"), task(600)) == others
    with pytest.raises(DataLossError, match=r"offsets \[500, 600\) of t-1 do not exist"):
        read(careful, task(600, -1))
    assert read(options(brokers, failOnDataLoss="false"), task(600, -1)) == others


@pytest.mark.parametrize("end", [LAST, -1])
def test_one_partition_that_does_not_exist(brokers: ScriptedCluster, end: int) -> None:
    more = task(0, end, partitions=PARTITIONS + 1)
    assert read(options(brokers, failOnDataLoss="false"), more) == whole()
    with pytest.raises(TaskError, match=r"reading t-4 offsets \[0, .*\) failed: .* Load the DataFrame again"):
        read(options(brokers), more)


def truncate(partition: FakePartition) -> None:
    """Replace the records from offset 100 on by others of a new leader epoch."""
    partition.truncate(100)
    partition.leader_epoch += 1
    fill(partition, batches=18)


@pytest.mark.feature("client.leaderEpochs")
@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("is_led", [True, False])
def test_log_truncated_during_the_read(brokers: ScriptedCluster, is_led: bool, fail: str) -> None:
    """What was read together of it is compared with the new leader's log."""
    reached = after(brokers, 2, functools.partial(truncate, brokers.partition("t", 2)))
    parsed = options(brokers, failOnDataLoss=fail)
    given = led(parsed, task()) if is_led else task()
    if fail == "true":
        with pytest.raises(DataLossError, match=r"the log of t-2 was truncated at offset 100 "):
            read(parsed, given)
    else:
        assert read(parsed, given) == whole() | {2: [*range(reached[1]), *range(100, LAST)]}
        assert reached[1] > 100


@pytest.mark.feature("client.leaderEpochs")
def test_log_truncated_after_the_task_has_looked_up_its_end(brokers: ScriptedCluster) -> None:
    after(brokers, 0, functools.partial(truncate, brokers.partition("t", 2)))
    with pytest.raises(DataLossError, match=r"the log of t-2 was truncated at offset 100 "):
        read(options(brokers), task(200, -1))


# --- errors


def test_read_errors_name_range_and_option(brokers: ScriptedCluster) -> None:
    batches = brokers.partition("t", 2).batches
    batches[7] = batches[7][:70] + bytes([batches[7][70] ^ 1]) + batches[7][71:]
    with pytest.raises(TaskError, match=r"reading t-2 offsets \[0, 1000\) failed: .*offset 350 .*'kafka.check.crcs'"):
        read(options(brokers), task())


@pytest.mark.parametrize("end", [LAST, -1])
def test_a_refused_password_is_not_shown_again(end: int) -> None:
    guard = Guard(mechanisms=("PLAIN",), users={"alice": "right"})
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="alice" password="wrong";',
    }
    with (
        ScriptedCluster(topics={"t": PARTITIONS}, guard=guard) as brokers,
        pytest.raises(TaskError, match=r"reading t-0 offsets .*, t-3 offsets .* failed: .*A retry does not"),
    ):
        read(options(brokers, **login), task(0, end))


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_batch_above_the_cap_names_its_offset_and_the_option(brokers: ScriptedCluster, partitions: int) -> None:
    large = batch_of([b"%d" % LAST, b"x" * 100_000], compression=CompressionType.GZIP)
    brokers.partition("t").append(large)
    wanted = task(0, LAST + 2, partitions=1) + task(partitions=partitions)[1:]
    with pytest.raises(TaskError) as caught:
        list(read_task(options(brokers, maxDecompressedBatchBytes="100000"), LAYOUT, wanted))
    assert f"t-0: the record batch at offset {LAST} decompresses to more than 100000 bytes. " in str(caught.value)
    assert "Raise option 'maxDecompressedBatchBytes'" in str(caught.value)
    fetched_at = [
        part.fetch_offset
        for request in brokers.requests(FetchRequest)
        for part in request.topics[0].partitions
        if part.partition == 0
    ]
    assert 1 <= fetched_at.count(LAST) <= partitions, "a batch that is too large was fetched again by the same reader"
    accepted = read_task(options(brokers, maxDecompressedBatchBytes="101000"), LAYOUT, wanted)
    assert sum(batch.num_rows for batch in accepted) == partitions * LAST + 2


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_no_partition_has_rows_of_two_topics_of_one_name(brokers: ScriptedCluster, partitions: int, fail: str) -> None:
    """Not even if the ranges have no planned topic. Two partitions may be of two topics, as in separate tasks.

    The leader of the odd partitions may have received no Fetch before the topic is created again.
    """

    def recreate() -> None:
        brokers.state.create("t", PARTITIONS)
        for number in range(PARTITIONS):
            brokers.partition("t", number).append(batch_of([b"another"] * LAST))

    after(brokers, 2, recreate)
    batches = read_task(options(brokers, failOnDataLoss=fail), LAYOUT, task(partitions=partitions))
    if fail == "true":
        lost = r"(\[[1-9]\d+, 1000\) of t-[02]|\[\d+, 1000\) of t-[13])"
        with pytest.raises(DataLossError, match=rf"TOPIC_RECREATED\] offsets {lost} are gone"):
            list(batches)
        return
    table = pa.Table.from_batches(list(batches))
    kinds = {(row["partition"], row["value"] == b"another") for row in table.to_pylist()}
    assert len(kinds) == len({partition for partition, _ in kinds})
    assert False in {is_another for _, is_another in kinds}


@pytest.fixture
def kafka_3_0() -> Iterator[ScriptedCluster]:
    """One leader, with topic ids, and Fetch up to version 12."""
    with ScriptedCluster(topics={"t": PARTITIONS}, versions={**KAFKA_4_3, 1: (4, 12)}) as running:
        for number in range(PARTITIONS):
            fill(running.partition("t", number))
        yield running


@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_fetches_by_name_cost_two_requests_for_metadata(kafka_3_0: ScriptedCluster, partitions: int) -> None:
    parsed = options(kafka_3_0)
    planned = led(parsed, task(partitions=partitions))
    before = len(kafka_3_0.requests(MetadataRequest))
    assert read(parsed, planned) == {number: list(range(LAST)) for number in range(partitions)}
    assert len(kafka_3_0.requests(MetadataRequest)) == before + 2


@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_a_topic_created_again_while_it_is_read_by_name_fails_the_task(
    kafka_3_0: ScriptedCluster, partitions: int
) -> None:
    parsed = options(kafka_3_0)
    planned = led(parsed, task(partitions=partitions))
    after(kafka_3_0, 1, lambda: setattr(kafka_3_0.state.topics["t"], "topic_id", uuid.uuid4()))
    with pytest.raises(DataLossError, match=rf"TOPIC_RECREATED\] offsets \[0, {LAST}\) of t-0 are gone"):
        read(parsed, planned)
    assert read(options(kafka_3_0, failOnDataLoss="false"), planned) == {}


def test_every_partition_of_every_topic_created_again_is_reported(
    kafka_3_0: ScriptedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """One partition cannot be read to its end together with the others, and is reported once all the same."""
    kafka_3_0.state.create("u", 1)
    kafka_3_0.state.create("v", 1)
    for topic in ("u", "v"):
        fill(kafka_3_0.partition(topic))
    parsed = options(kafka_3_0, failOnDataLoss="false")
    others = tuple(range_of(TopicPartition(topic, 0), 0, LAST) for topic in ("u", "v"))
    planned = led(parsed, task(partitions=2) + others)

    def recreate() -> None:
        kafka_3_0.partition("t", 1).leader = 0
        for topic in ("t", "u"):
            kafka_3_0.state.topics[topic].topic_id = uuid.uuid4()

    after(kafka_3_0, 2, recreate)
    read_of_t1 = sum(batch.num_rows for batch in read_task(parsed, LAYOUT, planned)) - 3 * LAST
    assert 0 < read_of_t1 < LAST
    assert [record.getMessage().partition(" are gone")[0] for record in caplog.records] == [
        f"[KAFKA_DATA_LOSS.TOPIC_RECREATED] offsets [{start}, {end}) of {partition}"
        for start, end, partition in [(0, LAST, "t-1"), (0, LAST, "t-0"), (0, LAST, "u-0")]
    ]


@pytest.mark.parametrize("partitions", [1, PARTITIONS])
def test_a_topic_deleted_while_it_is_read_by_name_fails_the_task(kafka_3_0: ScriptedCluster, partitions: int) -> None:
    """Whether it was created again between two Fetches, and deleted once more, cannot be found out."""
    for fail in ("true", "false"):
        parsed = options(kafka_3_0, failOnDataLoss=fail)
        planned = led(parsed, task(partitions=partitions))
        refused = [Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * UNKNOWN_TOPIC_TRIES
        kafka_3_0.script(MetadataRequest, Pass(), *refused)
        if fail == "true":
            with pytest.raises(TaskError, match=r"UNKNOWN_TOPIC_OR_PARTITION"):
                read(parsed, planned)
        else:
            assert read(parsed, planned) == {number: list(range(LAST)) for number in range(partitions)}
