import asyncio
import itertools
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from broker_embedded._coordinator.log import Appended, Within, partition_for
from broker_embedded._groups.classic.group import ClassicGroup, ClassicState
from broker_embedded._groups.group import CancelTimer, Group, Outcome, Pending, Reply
from broker_embedded._groups.offsets import OffsetCommit
from broker_embedded._records.coordinator_record import CoordinatorRecord, encode_batch
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest
from spark_kafka_native._protocol.messages.join_group import JoinGroupResponse
from spark_kafka_native._protocol.messages.offset_commit import OffsetCommitRequest
from spark_kafka_native._protocol.messages.sync_group import SyncGroupRequest
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.disk import FaultyFileSystem
from tests.support.broker.driver import BrokerDriver, decode_batch
from tests.support.broker.log_driver import batches_of
from tests.support.broker.members import begin_join, heartbeat, join_request, stable
from tests.support.refusals import refused

T0 = TopicPartition("t", 0)
WEEK_MS = 7 * 24 * 3_600_000


def position(broker: BrokerDriver, offset: int, topic: str = "t") -> OffsetCommit:
    partition, topic_id = TopicPartition(topic, 0), broker.topic_id(topic)
    return OffsetCommit(partition=partition, topic_id=topic_id, offset=offset, leader_epoch=0, metadata="")


def commit(broker: BrokerDriver, group: str, offset: int, topic: str = "t", **member: Any) -> None:
    request = OffsetCommitRequest(group_id=group, **member)
    broker.run(broker.broker.groups.commit(request, [position(broker, offset, topic)], 8))


def offset(broker: BrokerDriver, group: str) -> int | None:
    value = broker.broker.groups.offsets.all_committed(group).get(T0)
    return None if value is None else value.offset


def log_of(broker: BrokerDriver, group: str) -> list[CoordinatorRecord]:
    log = broker.broker.partitions.get("__consumer_offsets", partition_for(group, 3)).log
    return [record for header, raw in batches_of(log) for record in decode_batch(raw, 0, header)]


def join(broker: BrokerDriver) -> "asyncio.Task[JoinGroupResponse | None]":
    return begin_join(broker, join_request(), 0)


def group_of(broker: BrokerDriver) -> ClassicGroup:
    group = broker.broker.groups.get("g")
    assert isinstance(group, ClassicGroup)
    return group


def test_each_group_is_kept_in_its_partition(broker: BrokerDriver) -> None:
    broker.create("t")
    for group in ("a", "b", "c", "d"):
        commit(broker, group, 5)
        assert len(log_of(broker, group)) == 1 + sum(
            partition_for(other, 3) == partition_for(group, 3) for other in "abcd" if other < group
        )


def test_groups_are_loaded_after_a_crash(broker: BrokerDriver) -> None:
    broker.create("t")
    for number in range(50):
        commit(broker, f"group-{number % 20}", number)
    broker.crash()
    assert [offset(broker, f"group-{number}") for number in range(20)] == [
        number + (40 if number < 10 else 20) for number in range(20)
    ]


def test_a_commit_whose_append_fails_changes_nothing(disk: tuple[BrokerDriver, FaultyFileSystem]) -> None:
    broker, faults = disk
    commit(broker, "g", 5)
    faults.fail("write *.log")
    assert refused(commit, broker, "g", 6).code is ErrorCode.NOT_COORDINATOR
    assert offset(broker, "g") == 5
    faults.heal()
    commit(broker, "g", 7)
    assert offset(broker, "g") == 7


def test_tombstones_that_cannot_be_written_leave_the_offsets(
    disk: tuple[BrokerDriver, FaultyFileSystem], caplog: pytest.LogCaptureFixture
) -> None:
    broker, faults = disk
    commit(broker, "g", 5)
    faults.fail("write *.log")
    with caplog.at_level(logging.WARNING):
        broker.run(broker.broker.groups.forget_topic("t"))
    assert offset(broker, "g") == 5
    assert "offsets of group g cannot be deleted although topic t is deleted" in caplog.text


def test_a_record_that_cannot_be_decoded_is_ignored_at_load(
    broker: BrokerDriver, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create("t")
    groups = ["a", "b", "c"]
    assert len({partition_for(group, 3) for group in groups}) == 3
    for group in groups:
        commit(broker, group, 5)
    partition = broker.broker.partitions.get("__consumer_offsets", partition_for("b", 3))
    damaged = [CoordinatorRecord(key=key, value=b"") for key in (b"\x00\x01", b"\x00\x02")]
    batch = encode_batch(damaged, broker.clock.now_ms())
    partition.append(batch)
    with caplog.at_level(logging.ERROR):
        broker.restart()
    assert [offset(broker, group) for group in groups] == [5, 5, 5]
    assert caplog.text.count("a record of __consumer_offsets cannot be decoded, ignored") == 2


def test_commits_at_once_all_count(broker: BrokerDriver) -> None:
    broker.create("t")
    groups = broker.broker.groups

    async def all_at_once() -> None:
        requests = [(OffsetCommitRequest(group_id=f"g{number}"), [position(broker, number)]) for number in range(30)]
        await asyncio.gather(*(groups.commit(request, wanted, 8) for request, wanted in requests))

    broker.run(all_at_once())
    assert [offset(broker, f"g{number}") for number in range(30)] == list(range(30))


def test_a_commit_whose_client_has_left_is_in_the_state_as_in_the_log(broker: BrokerDriver) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    broker.create("t")
    commit(broker, "g", 5)

    async def leave_half_way() -> None:
        commits = [position(broker, 6)]
        task = asyncio.create_task(broker.broker.groups.commit(OffsetCommitRequest(group_id="g"), commits, 8))
        async with broker.during_disk_work(task):
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await broker.broker.shielded_tasks.wait()

    broker.run(leave_half_way())
    in_log = len(log_of(broker, "g"))
    assert (offset(broker, "g"), in_log) == (6, 2)


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_stable_group_comes_back_as_it_was(broker: BrokerDriver, how: str) -> None:
    member_id = stable(broker)
    before = group_of(broker)
    getattr(broker, how)()
    assert group_of(broker) == before
    assert heartbeat(broker, member_id) is ErrorCode.NONE


def test_members_of_a_group_that_came_back_have_a_session_again(broker: BrokerDriver) -> None:
    member_id = stable(broker)
    broker.advance(9_000)
    broker.crash()
    broker.broker.groups.resume()  # without a request
    broker.advance(9_999)
    assert group_of(broker).members
    assert heartbeat(broker, member_id) is ErrorCode.NONE
    broker.advance(10_000)
    assert group_of(broker).state is ClassicState.EMPTY
    broker.restart()
    assert (group_of(broker).state, group_of(broker).generation) == (ClassicState.EMPTY, 2)


def test_a_member_without_a_session_leaves_an_empty_group_in_the_log(broker: BrokerDriver) -> None:
    stable(broker)
    records = len(log_of(broker, "g"))
    broker.advance(10_000)
    assert len(log_of(broker, "g")) == records + 1


def test_a_group_that_had_no_generation_yet_comes_back_empty(broker: BrokerDriver) -> None:
    task = join(broker)
    broker.crash()
    assert (group_of(broker).state, group_of(broker).protocol_type) == (ClassicState.EMPTY, "")
    task.cancel()


def test_committed_offsets_expire_after_the_last_member_has_left(broker: BrokerDriver) -> None:
    broker.create("t")
    member_id = stable(broker)
    commit(broker, "g", 5, generation_id_or_member_epoch=1, member_id=member_id)
    broker.advance(10_000)
    assert group_of(broker).state is ClassicState.EMPTY
    broker.advance(WEEK_MS - 1)
    broker.run(broker.broker.groups.expire())
    assert offset(broker, "g") == 5
    broker.restart()
    broker.advance(1)
    broker.run(broker.broker.groups.expire())
    for _ in range(2):
        assert (offset(broker, "g"), dict(broker.broker.groups.all)) == (None, {})
        broker.restart()


def test_waiting_members_get_not_coordinator_when_the_broker_stops(broker: BrokerDriver) -> None:
    task = join(broker)
    assert len(broker.broker.groups._pending) == 1
    broker.broker.groups.release()
    broker.settle()
    assert broker.response(task).error_code == ErrorCode.NOT_COORDINATOR
    assert heartbeat(broker, "m") is ErrorCode.NOT_COORDINATOR
    assert len(broker.broker.groups._pending) == 0
    broker.restart()
    assert heartbeat(broker, "m") is ErrorCode.UNKNOWN_MEMBER_ID


def test_waiting_members_get_not_coordinator_when_the_offsets_topic_is_deleted(broker: BrokerDriver) -> None:
    task = join(broker)
    broker.delete("__consumer_offsets")
    broker.settle()
    assert broker.response(task).error_code == ErrorCode.NOT_COORDINATOR
    assert not broker.broker.groups.all
    member_id = stable(broker)
    assert heartbeat(broker, member_id) is ErrorCode.NONE


def test_the_member_of_a_client_that_disconnects_while_it_waits_stays(broker: BrokerDriver) -> None:
    join(broker).cancel()
    broker.settle()
    assert len(group_of(broker).members) == 1
    broker.advance(3_000)
    assert group_of(broker).state is ClassicState.COMPLETING_REBALANCE
    assert len(broker.broker.groups._pending) == 0
    broker.advance(10_000)
    assert group_of(broker).state is ClassicState.EMPTY


def test_a_response_may_come_with_the_decision_that_parks_its_request(broker: BrokerDriver) -> None:
    groups = broker.broker.groups
    request_id = groups.new_request_id()

    def decide(_: Group | None, __: int) -> Outcome[str]:
        return Outcome(response=Pending(request_id=request_id), replies=(Reply(request_id=request_id, response="now"),))

    assert broker.run(groups.apply("g", decide)) == "now"
    assert len(groups._pending) == 0


def test_a_timer_whose_records_cannot_be_written_is_retried(
    disk: tuple[BrokerDriver, FaultyFileSystem], caplog: pytest.LogCaptureFixture
) -> None:
    broker, faults = disk
    stable(broker)
    faults.fail("write *.log")
    with caplog.at_level(logging.WARNING):
        broker.advance(11_000)
    assert group_of(broker).members
    assert "timer session-" in caplog.text
    faults.heal()
    broker.advance(500)
    assert group_of(broker).state is ClassicState.EMPTY


def test_assignments_that_cannot_be_written_down_are_not_given(disk: tuple[BrokerDriver, FaultyFileSystem]) -> None:
    broker, faults = disk
    task = join(broker)
    broker.advance(3_000)
    response = broker.response(task)
    faults.fail("write *.log")
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=response.member_id)
    assert broker.ask(request, 0).error_code == ErrorCode.NOT_COORDINATOR
    assert group_of(broker).state is ClassicState.PREPARING_REBALANCE


def test_a_decision_that_has_another_one_for_failures(disk: tuple[BrokerDriver, FaultyFileSystem]) -> None:
    broker, faults = disk
    commit(broker, "g", 5)
    faults.fail("write *.log")
    records = (CoordinatorRecord(key=b"\x00\x63", value=b""),)

    def decide(_: Group | None, __: int) -> Outcome[ErrorCode]:
        return Outcome(response=ErrorCode.NONE, records=records, otherwise=lambda code: Outcome(response=code))

    assert broker.run(broker.broker.groups.apply("g", decide)) is ErrorCode.NOT_COORDINATOR


def test_decisions_about_a_group_are_serialized_while_an_append_waits_for_the_disk(broker: BrokerDriver) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    groups = broker.broker.groups
    seen: list[tuple[int, int]] = []

    def decide(number: int) -> Any:
        def decision(group: Group | None, _: int) -> Outcome[int]:
            generation = group.generation if isinstance(group, ClassicGroup) else 0
            seen.append((number, generation))
            made = ClassicGroup(group_id="g", config=groups.context.classic, generation=generation + 1)
            return Outcome(response=number, records=(CoordinatorRecord(key=b"\x00\x63", value=b""),), group=made)

        return decision

    async def all_at_once() -> list[int]:
        return list(await asyncio.gather(*(groups.apply("g", decide(number)) for number in range(20))))

    assert broker.run(all_at_once()) == list(range(20))
    assert seen == [(number, number) for number in range(20)]


@pytest.mark.parametrize("end", ["release", "forget"])
def test_changes_during_release_of_the_groups_are_dropped(broker: BrokerDriver, end: str) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    groups = broker.broker.groups
    broker.run(groups.make_ready())
    appended = asyncio.Event()
    append = groups.log.append_on_disk

    async def slow_append(name: str, records: Sequence[CoordinatorRecord], within: Within | None = None) -> Appended:
        where = await append(name, records, within)
        await appended.wait()
        return where

    groups.log.append_on_disk = slow_append  # type: ignore[method-assign]  # the disk takes its time
    task = begin_join(broker, join_request(), 0)
    if end == "release":
        groups.release()
    else:
        broker.run(groups.forget_topic("__consumer_offsets"))
    appended.set()
    assert broker.response(task).error_code == ErrorCode.NOT_COORDINATOR
    assert not groups.all
    assert len(groups._pending) == 0


def test_groups_work_alike_when_appends_wait_for_the_disk(broker: BrokerDriver) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    member_id = stable(broker)
    for _ in range(3):
        broker.advance(9_000)
        assert heartbeat(broker, member_id) is ErrorCode.NONE
    broker.advance(10_000)
    assert group_of(broker).state is ClassicState.EMPTY


def test_a_timer_that_was_restarted_while_it_waited_for_the_lock_does_nothing(broker: BrokerDriver) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    member_id = stable(broker)
    groups = broker.broker.groups

    async def prolong_just_in_time() -> None:
        groups._on_timer("g", ("session", member_id))  # due while another request holds the lock
        await broker._ask(HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id), 4, "test")
        await broker.broker.shielded_tasks.wait()

    broker.run(prolong_just_in_time())
    assert group_of(broker).members


def test_a_timer_that_is_cancelled_while_it_waits_for_the_lock_does_nothing(broker: BrokerDriver) -> None:
    broker.restart({"log.flush.interval.messages": 1})
    key = ("session", stable(broker))
    groups = broker.broker.groups
    cancelled = Outcome(response=None, timers=(CancelTimer(key=key),))

    async def cancel_just_in_time() -> None:
        groups._on_timer("g", key)  # due while another request holds the lock
        await groups.apply("g", lambda _group, _now_ms: cancelled)
        await broker.broker.shielded_tasks.wait()

    broker.run(cancel_just_in_time())
    assert group_of(broker).members


@pytest.mark.parametrize("reason", ["expired", "topic deleted"])
def test_other_tasks_run_while_offsets_of_many_groups_are_deleted(broker: BrokerDriver, reason: str) -> None:
    broker.create("t")
    for number in range(40):
        commit(broker, f"group-{number}", 5)
    groups = broker.broker.groups
    broker.clock.advance(WEEK_MS)
    left: list[int] = []

    async def watch(work: "asyncio.Task[None]") -> None:
        while not work.done():
            left.append(sum(1 for number in range(40) if offset(broker, f"group-{number}") is not None))
            await asyncio.sleep(0)  # one step of the deletion

    async def both() -> None:
        work = groups.expire() if reason == "expired" else groups.forget_topic("t")
        await watch(asyncio.get_running_loop().create_task(work))

    broker.run(both())
    assert left[-1] == 0
    assert max(before - after for before, after in itertools.pairwise(left)) == 1
