import pytest
from dirty_equals import IsStr

from broker_embedded.testing import ErrorCode
from spark_kafka_native._client.groups.topic_filters import Whitelist
from spark_kafka_native._mirror.mirror import Mirror
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native.clients import SimpleConsumer
from tests.support.waiting import eventually
from tests.system.spark_kafka_native.mirror.conftest import Clusters, await_copies

each_guarantee = pytest.mark.parametrize("exactly_once", [False, True], ids=["at least once", "exactly once"])


def failure(mirror: Mirror) -> str:
    """The error that ends a mirror."""

    def wait() -> str:
        try:
            mirror.wait(0.1)
        except KafkaError as error:
            return str(error)
        return ""

    return eventually(wait, IsStr(min_length=1))


def values(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@each_guarantee
@pytest.mark.parametrize(
    ("side", "api", "error"),
    [
        ("target", "Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("target", "Produce", ErrorCode.REQUEST_TIMED_OUT),
        ("target", "Metadata", None),
        ("target", "Produce", None),
        ("source", "Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("source", "Fetch", None),
        ("source", "Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS),
        ("source", "OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_errors_that_pass_lose_and_double_nothing(
    clusters: Clusters, exactly_once: bool, side: str, api: str, error: ErrorCode | None
) -> None:
    clusters.write(range(50))
    faults = getattr(clusters, side).faults
    fault = faults.drop(api, when="after", times=2) if error is None else faults.fail(api, error, times=2)
    with Mirror(clusters.config(exactly_once=exactly_once)) as mirror:
        await_copies(mirror, lambda: len(clusters.copied()), 50)
        clusters.write(range(50, 60))
        await_copies(mirror, lambda: len(clusters.copied()), 60)
    assert clusters.copied() == values(60)
    if not (exactly_once and api in {"Heartbeat", "OffsetCommit"} and side == "source"):
        assert fault.hits > 0


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("TxnOffsetCommit", ErrorCode.ILLEGAL_GENERATION),
        ("TxnOffsetCommit", ErrorCode.UNKNOWN_MEMBER_ID),
        ("TxnOffsetCommit", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("EndTxn", ErrorCode.CONCURRENT_TRANSACTIONS),
        ("EndTxn", ErrorCode.INVALID_TXN_STATE),
        ("EndTxn", None),
        ("Produce", ErrorCode.INVALID_PRODUCER_EPOCH),
        ("Produce", ErrorCode.TRANSACTION_ABORTABLE),
        ("InitProducerId", ErrorCode.CONCURRENT_TRANSACTIONS),
        ("OffsetFetch", ErrorCode.UNSTABLE_OFFSET_COMMIT),
    ],
)
def test_exactly_once_after_an_error_of_a_transaction(clusters: Clusters, api: str, error: ErrorCode | None) -> None:
    clusters.write(range(50))
    faults = clusters.target.faults
    fault = faults.drop(api, when="after", times=1) if error is None else faults.fail(api, error, times=1)
    with Mirror(clusters.config(exactly_once=True)) as mirror:
        await_copies(mirror, lambda: len(clusters.copied()), 50)
        clusters.write(range(50, 60))
        await_copies(mirror, lambda: len(clusters.copied()), 60)
    assert clusters.copied() == values(60)
    assert fault.hits == 1


def test_a_target_that_cannot_be_written_to_ends_the_mirror(clusters: Clusters) -> None:
    clusters.write(range(10))
    fault = clusters.target.faults.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS)
    limits = {"delivery.timeout.ms": "400", "request.timeout.ms": "200", "linger.ms": "0"}
    with Mirror(clusters.config(target=limits)) as mirror:
        text = failure(mirror)
    assert f"the target cluster: {clusters.topic}-0: " in text
    assert "10 records are not acknowledged" in text
    fault.remove()
    clusters.copy(clusters.config(), 10)
    assert clusters.copied() == values(10)


@each_guarantee
def test_without_abort_on_send_failure_the_mirror_tries_again(clusters: Clusters, exactly_once: bool) -> None:
    clusters.write(range(10))
    fault = clusters.target.faults.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS)
    limits = {"delivery.timeout.ms": "400", "request.timeout.ms": "200", "linger.ms": "0"}
    config = clusters.config(target=limits, aborts_on_send_failure=False, exactly_once=exactly_once)
    with Mirror(config) as mirror:
        eventually(lambda: fault.hits > 20, expected=True)
        fault.remove()
        await_copies(mirror, lambda: len(clusters.copied()), 10)
    assert clusters.copied() == values(10)


def test_a_record_that_the_target_does_not_take_names_its_partition(clusters: Clusters) -> None:
    clusters.target.create_topic(clusters.topic, 2, configs={"max.message.bytes": "1000"})
    clusters.write([b"x" * 500, b"y" * 500, b"z" * 2000])
    with Mirror(clusters.config()) as mirror:
        text = failure(mirror)
    assert f"the target cluster: {clusters.topic}-0" in text
    assert "MESSAGE_TOO_LARGE" in text
    assert clusters.copied()[:2] == [b"x" * 500, b"y" * 500], "smaller records of the same batch are copied"


def test_a_missing_partition_is_an_error_if_it_is_not_to_be_created(clusters: Clusters) -> None:
    clusters.write(range(1))
    with Mirror(clusters.config(creates_topics=False)) as mirror:
        text = failure(mirror)
    assert f"the target cluster: {clusters.topic}-0 does not exist: there is no such topic; create it" in text
    assert clusters.topic not in clusters.target.topics()


@pytest.mark.parametrize(("prefix", "topics"), [("", "{topic}"), ("{topic}", "{topic}.*")])
def test_a_mirror_into_its_own_source_is_refused(clusters: Clusters, prefix: str, topics: str) -> None:
    clusters.write(range(1))
    clusters.target = clusters.source
    chosen = Whitelist(topics.format(topic=clusters.topic))
    with Mirror(clusters.config(chosen, prefix=prefix.format(topic=clusters.topic))) as mirror:
        text = failure(mirror)
    assert "source and target are the same cluster, so the mirror would copy its own copies" in text


@each_guarantee
def test_two_mirrors_of_one_group_share_the_partitions(clusters: Clusters, exactly_once: bool) -> None:
    config = clusters.config(exactly_once=exactly_once)
    clusters.write(range(10))
    with Mirror(config) as first:
        await_copies(first, clusters.copied, values(10))
        with Mirror(config) as second:
            readers = [mirror.sources[0]._member.reader for mirror in (first, second)]
            eventually(lambda: [len(reader.owned) for reader in readers], [1, 1])
            clusters.write(range(10, 20))
            await_copies(second, clusters.copied, values(20))
        clusters.write(range(20, 30))
        await_copies(first, clusters.copied, values(30))


def test_offsets_of_the_group_survive_a_source_that_is_away(clusters: Clusters) -> None:
    clusters.write(range(10))
    with Mirror(clusters.config()) as mirror:
        await_copies(mirror, lambda: len(clusters.copied()), 10)
        clusters.source.restart()
        clusters.write(range(10, 20))
        await_copies(mirror, lambda: len(clusters.copied()), 20)
    assert clusters.copied() == values(20)
    with SimpleConsumer({"bootstrap.servers": clusters.source.bootstrap_servers}) as consumer:
        committed = {str(part): each.offset for part, each in consumer.committed_offsets(clusters.group_id).items()}
    assert committed[f"{clusters.topic}-0"] == 20


def test_a_fenced_producer_with_a_given_transactional_id_ends_the_mirror(clusters: Clusters) -> None:
    """Two mirrors that have the same one would fence each other without end."""
    clusters.write(range(10))
    clusters.target.faults.fail("Produce", ErrorCode.INVALID_PRODUCER_EPOCH, times=1)
    with Mirror(clusters.config(exactly_once=True, target={"transactional.id": clusters.topic})) as mirror:
        assert f"the target cluster: transactional id {clusters.topic}-{clusters.group_id}-0: " in failure(mirror)
    clusters.copy(clusters.config(exactly_once=True), 10)
    assert clusters.copied() == values(10)


@each_guarantee
def test_nothing_is_lost_while_the_target_restarts(clusters: Clusters, exactly_once: bool) -> None:
    clusters.write(range(10))
    with Mirror(clusters.config(exactly_once=exactly_once)) as mirror:
        await_copies(mirror, lambda: len(clusters.copied()), 10)
        clusters.target.kill()
        clusters.write(range(10, 20))
        clusters.target.start()
        await_copies(mirror, lambda: len(clusters.copied()), 20)
    assert clusters.copied() == values(20)
