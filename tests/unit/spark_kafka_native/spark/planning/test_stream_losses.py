"""A stream whose records, partitions or topics are gone, or seem to be, against a cluster that is only numbers."""

import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.errors import DataLossError, PlanError
from tests.support.spark.fake_offsets import FakeCluster, ManualClock
from tests.support.spark.stream_query import StreamQuery, query

T0, T1 = (TopicPartition("t", partition) for partition in range(2))
U0 = TopicPartition("u", 0)


@pytest.mark.feature("loss.deleted", "source.failOnDataLoss")
def test_deleted_partition_fails_the_query_or_is_accepted(cluster: FakeCluster) -> None:
    careful = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    careless = query(cluster, startingOffsets="earliest", failOnDataLoss="false").start().run_to_the_end()
    cluster.remove("t", 1)
    cluster.produce("t", 0, 2)
    careful.clock.ms = careless.clock.ms = 10_000
    with pytest.raises(DataLossError, match=r"^\[KAFKA_DATA_LOSS.PARTITIONS_DELETED\] partitions t-1 "):
        careful.trigger()
    careless.run_to_the_end()
    assert careless.offsets_log[-1] == {T0: 12}
    assert careless.read[T0] == list(range(12))


def test_deletion_is_reported_after_repeated_lookups(cluster: FakeCluster) -> None:
    """A broker that has just started may have incomplete metadata."""
    gone = {tp: cluster.end[tp] for tp in (T0, T1)}

    class Forgetful(ManualClock):
        def sleep_ms(self, duration_ms: float) -> None:
            super().sleep_ms(duration_ms)
            cluster.first |= dict.fromkeys(gone, 0)
            cluster.end |= gone

    running = StreamQuery(cluster, {"startingOffsets": "earliest"}, clock=Forgetful()).start().run_to_the_end().later()
    cluster.remove("t")
    assert not running.trigger()
    assert running.clock.slept_ms == 1000


def test_accepted_deletion_is_not_looked_up_again(cluster: FakeCluster) -> None:
    running = query(cluster, subscribe="t,gone", startingOffsets="earliest", failOnDataLoss="false")
    cluster.add("gone", 1)
    running.start().run_to_the_end()
    cluster.remove("gone")
    running.later().run_to_the_end()
    assert running.clock.slept_ms == 6000  # the partition first, then the topic
    for _ in range(10):
        cluster.produce("t", 0, 1)
        running.clock.ms += 1000
        assert running.trigger()
    assert running.clock.slept_ms == 6000
    cluster.add("gone", 1)
    running.later().run_to_the_end()
    cluster.remove("gone")
    running.later().trigger()
    assert running.clock.slept_ms == 9000


@pytest.mark.feature("loss.deleted")
def test_partition_missing_for_a_while_continues_at_its_offset(cluster: FakeCluster) -> None:
    """A broker with stale metadata can hide a topic; its records are not read again."""
    cluster.add("u", 4)
    running = query(cluster, subscribePattern="t|u", startingOffsets="earliest", failOnDataLoss="false").start()
    running.run_to_the_end()
    hidden = {tp: cluster.end.pop(tp) for tp in list(cluster.end) if tp.topic == "u"}
    running.later().run_to_the_end()
    assert TopicPartition("u", 0) not in running.offsets_log[-1]
    cluster.end |= hidden
    cluster.produce("u", 0, 2)
    running.later().run_to_the_end(max_offsets=1)
    assert running.read[TopicPartition("u", 0)] == list(range(6))

    cluster.recreate("u", 3)
    running.later().run_to_the_end()
    assert running.read[TopicPartition("u", 0)] == [*range(6), *range(3)]


@pytest.mark.feature("loss.changed", "source.numRetries", "source.retryIntervalMs")
def test_decreased_end_offset_is_reported_after_repeated_lookups(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    running.clock.ms += 1000
    cluster.end[T0] = 9
    with pytest.raises(DataLossError, match="was changed from 10 to 9"):
        running.trigger()
    assert running.clock.slept_ms == 3000


def test_accepted_decrease_of_the_end_offset_is_the_next_start(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest", failOnDataLoss="false").start().run_to_the_end()
    running.clock.ms += 1000
    cluster.end[T0] = 2
    running.run_to_the_end()
    cluster.produce("t", 0, 2)
    running.later().run_to_the_end()
    assert running.read[T0] == [*range(10), 2, 3]


@pytest.mark.feature("loss.agedOut", "better.agedOut", "loss.noDuplicates", "source.failOnDataLoss")
def test_deleted_records_fail_the_query_or_are_skipped(cluster: FakeCluster) -> None:
    for option, expected in (("true", None), ("false", [*range(10), 15])):
        cluster = FakeCluster().add("t", 10)
        running = query(cluster, startingOffsets="earliest", failOnDataLoss=option).start().run_to_the_end()
        running.clock.ms += 1000
        cluster.first[T0], cluster.end[T0] = 15, 16
        if expected is None:
            with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE\] offsets \[10, 15\) of t-0"):
                running.trigger()
        else:
            running.run_to_the_end()
            assert running.read[T0] == expected


def test_unknown_topic_is_an_error_after_bounded_lookups(cluster: FakeCluster) -> None:
    running = query(cluster, subscribe="t,missing").start()
    with pytest.raises(PlanError) as caught:
        running.stream.initial()
    assert caught.value.code == "KAFKA_UNKNOWN_TOPIC"
    text = "these topics of option subscribe do not exist in the cluster at broker:9092: missing"
    assert text in str(caught.value)
    assert cluster.requests == ["topics"] * 4
    assert running.clock.slept_ms == 3000


def test_new_topic_is_found_by_repeated_lookups(cluster: FakeCluster) -> None:

    class Busy(ManualClock):
        def sleep_ms(self, duration_ms: float) -> None:
            cluster.add("new", 1)

    running = StreamQuery(cluster, {"subscribe": "new", "startingOffsets": "earliest"}, clock=Busy()).start()
    assert running.stream.initial() == {TopicPartition("new", 0): 0}


def test_topic_added_to_a_running_subscription_must_exist(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    running.options = {"subscribe": "t,typo"}
    with pytest.raises(PlanError, match=r"these topics of option subscribe do not exist .*: typo"):
        running.start().trigger()
    running.options = {"subscribe": "t,typo", "failOnDataLoss": "false"}
    assert not running.start().trigger()


# --- options that name other topics than the checkpoint


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscribe": "u"}, "topic t, and option subscribe=u does not name any of them. "),
        ({"subscribePattern": "^u$"}, "topic t, and option subscribePattern=^u$ does not match any of them. "),
        ({"assign": '{"u":[0]}'}, 'partitions t-0, t-1, and option assign={"u":[0]} does not name any of them. '),
        ({"assign": '{"t":[1]}'}, 'partitions t-0, t-1, and option assign={"t":[1]} does not name partition t-0. '),
    ],
)
def test_checkpoint_of_other_topics_is_refused_before_an_end_is_logged(
    cluster: FakeCluster, options: dict[str, str], reason: str
) -> None:
    cluster.add("u", 3)
    running = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    running.options = {**options, "startingOffsets": "earliest"}
    with pytest.raises(PlanError) as caught:
        running.start().trigger()
    assert caught.value.code == "KAFKA_CHECKPOINT_OF_OTHER_TOPICS"
    assert f"the checkpoint has offsets of {reason}" in str(caught.value)
    assert running.offsets_log == [{T0: 10, T1: 4}]
    assert running.clock.slept_ms == 0

    running.options = {"subscribe": "t", "startingOffsets": "earliest"}
    cluster.produce("t", 0, 2)
    running.start().run_to_the_end()
    assert running.read == {T0: list(range(12)), T1: list(range(4))}


def test_all_topics_of_a_checkpoint_removed_is_no_case_for_fail_on_data_loss(cluster: FakeCluster) -> None:
    running = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    for options, advice in (
        ({"subscribe": "u"}, "Name topic t in option 'subscribe' again, or use a new"),
        ({"subscribePattern": "u"}, "Let the pattern match topic t again, or use a new"),
    ):
        running.options = options
        with pytest.raises(PlanError, match=advice) as caught:
            running.start().trigger()
        assert "failOnDataLoss" not in str(caught.value)


@pytest.mark.feature("loss.otherTopics")
def test_topic_is_removed_from_a_subscription_with_fail_on_data_loss_false(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add("u", 3)
    running = query(cluster, subscribe="t,u", startingOffsets="earliest").start().run_to_the_end()
    running.options = {"subscribe": "t"}
    with pytest.raises(PlanError, match="of topics t, u, and option subscribe=t does not name topic u") as caught:
        running.start().trigger()
    assert "To remove topic u from the query, or if it was deleted, set option 'failOnDataLoss' to false" in str(
        caught.value
    )
    cluster.produce("t", 0, 2)
    running.options = {"subscribe": "t", "failOnDataLoss": "false"}
    running.start().run_to_the_end()
    assert running.offsets_log[-1] == {T0: 12, T1: 4}
    assert "option subscribe=t does not name topic u; failOnDataLoss is false" in caplog.text
    assert "PARTITIONS_DELETED" not in caplog.text
    running.options = {"subscribe": "t"}
    running.start().run_to_the_end()
    assert running.read == {T0: list(range(12)), T1: list(range(4)), U0: list(range(3))}


def test_planned_batch_of_a_removed_topic_is_refused_or_replayed(cluster: FakeCluster) -> None:
    cluster.add("u", 3)
    running = query(cluster, subscribe="t,u", startingOffsets="earliest").start()
    running.trigger(crash=True)
    running.options = {"subscribe": "t", "startingOffsets": "earliest"}
    with pytest.raises(PlanError, match="does not name topic u"):
        running.start()
    running.options = {**running.options, "failOnDataLoss": "false"}
    running.start().run_to_the_end()
    assert running.offsets_log == [{T0: 10, T1: 4, U0: 3}, {T0: 10, T1: 4}]


def test_batch_planned_for_another_topic_is_refused(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    """As an earlier release, or the JVM connector, has logged it when the options named another topic by mistake."""
    cluster.add("u", 3)
    running = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    running.offsets_log.append({U0: 3})
    with pytest.raises(PlanError) as caught:
        running.start()
    assert (
        "the checkpoint's last finished batch has offsets of t-0, t-1, but its next batch was planned by an earlier "
        "run for u-0, without t-0, t-1: "
    ) in str(caught.value)
    assert """'startingOffsets' set to {"t":{"0":10,"1":4}}, which are those""" in str(caught.value)

    repaired = query(cluster)
    repaired.offsets_log, repaired.commits, repaired.read = running.offsets_log[:1], 1, dict(running.read)
    cluster.produce("t", 1, 1)
    repaired.start().run_to_the_end()
    assert repaired.read == {T0: list(range(10)), T1: list(range(5))}

    running.options = {"failOnDataLoss": "false"}
    running.start()
    assert "without t-0, t-1" in caplog.text
    assert "PARTITIONS_DELETED" not in caplog.text


def test_deleted_partition_is_reported_before_an_end_is_logged(cluster: FakeCluster) -> None:
    """A partition that is there again at the next start is then read on."""
    running = query(cluster, startingOffsets="earliest").start().run_to_the_end()
    cluster.remove("t", 1)
    with pytest.raises(DataLossError, match="t-1 were read before; now the cluster does not have them"):
        running.later().trigger()
    assert running.offsets_log == [{T0: 10, T1: 4}]
