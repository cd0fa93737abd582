import asyncio
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from broker_embedded._coordinator import pattern_matcher
from broker_embedded._coordinator.pattern_matcher import PatternMatcher
from broker_embedded._groups.consumer.group import ConsumerGroup
from broker_embedded._groups.pattern import MAX_PROGRAM_BYTES, Pattern, PatternError
from broker_embedded._platform.platform import ManualClock
from broker_embedded._platform.timers import timers_for
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.broker.driver import BrokerDriver
from tests.support.refusals import refused
from tests.support.requests.consumer_group import first_heartbeat
from tests.support.waiting import eventually_async

DEADLINE_S = 30


class SlowMatching:
    """Holds every match until it is released, and counts the names that were matched."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self.count = 0

    def fullmatch(self, _name: str) -> bool:
        self.count += 1
        self.begun.set()
        assert self.released.wait(DEADLINE_S)
        return True


@contextmanager
def slow_matching(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowMatching]:
    slow = SlowMatching()
    monkeypatch.setattr(Pattern, "fullmatch", slow.fullmatch)
    try:
        yield slow
    finally:
        slow.released.set()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Expressions in the order in which the matcher compiles them; the check of a heartbeat is not counted."""
    seen = list[str]()

    class Counted(Pattern):
        def __init__(self, expression: str) -> None:
            seen.append(expression)
            super().__init__(expression)

    monkeypatch.setattr(pattern_matcher, "Pattern", Counted)
    return seen


def join(broker: BrokerDriver, member_id: str, regex: str | None, *, epoch: int = 0) -> None:
    request = first_heartbeat(member_id, member_epoch=epoch, subscribed_topic_names=(), subscribed_topic_regex=regex)
    assert broker.ask(request, 1).error_code == ErrorCode.NONE


def leave(broker: BrokerDriver, member_id: str) -> None:
    join(broker, member_id, None, epoch=-1)


def resolved(broker: BrokerDriver) -> dict[str, set[str]]:
    group = broker.broker.groups.get("g")
    assert isinstance(group, ConsumerGroup)
    return {regex: set(found.topics) for regex, found in group.regexes.items()}


def test_requests_are_answered_while_an_expression_is_matched(
    broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create("t")
    with slow_matching(monkeypatch) as slow:
        join(broker, "a", "t.*")
        broker.run(eventually_async(slow.begun.is_set, True))
        join(broker, "b", None)
        assert resolved(broker) == {}
    broker.advance(0)
    assert resolved(broker) == {"t.*": {"t", "__consumer_offsets"}}


def test_a_group_has_one_lookup_at_a_time(broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create("t")
    with slow_matching(monkeypatch) as slow:
        join(broker, "a", "t.*")
        broker.run(eventually_async(slow.begun.is_set, True))
        join(broker, "b", "u.*")
        join(broker, "c", "v.*")
    broker.advance(0)
    assert slow.count == 2, "one expression, two topics"
    assert set(resolved(broker)) == {"t.*"}
    broker.advance(10_001)
    join(broker, "b", "u.*")
    broker.advance(0)
    assert set(resolved(broker)) == {"t.*", "u.*", "v.*"}


def test_an_expression_is_compiled_again_only_if_it_was_not_subscribed_meanwhile(
    broker: BrokerDriver, compiled: list[str]
) -> None:
    broker.create("t")
    join(broker, "a", "t.*")
    broker.advance(0)
    assert compiled == ["t.*"]
    for member_id, regex in (("b", "u.*"), ("c", "v.*")):
        broker.advance(10_001)
        join(broker, member_id, regex)
        broker.advance(0)
    assert compiled == ["t.*", "u.*", "v.*"]
    assert set(resolved(broker)) == {"t.*", "u.*", "v.*"}
    leave(broker, "b")
    broker.advance(10_001)
    join(broker, "d", "w.*")
    broker.advance(10_001)
    join(broker, "e", "u.*")
    broker.advance(0)
    assert compiled[3:] == ["w.*", "u.*"]


@pytest.mark.parametrize("deletes", ["members", "__consumer_offsets"])
def test_no_expression_is_kept_for_a_group_that_subscribes_to_none(
    broker: BrokerDriver, compiled: list[str], deletes: str
) -> None:
    join(broker, "a", "t.*")
    broker.advance(0)
    assert broker.broker.patterns._kept_bytes > 0
    if deletes == "members":
        leave(broker, "a")
    else:
        broker.run(broker.broker.groups.forget_topic(deletes))
    assert broker.broker.patterns._kept_bytes == 0
    join(broker, "a", "t.*")
    broker.advance(0)
    assert compiled == ["t.*", "t.*"]


def test_an_expression_is_not_compiled_again_if_its_lookup_could_not_be_written(
    broker: BrokerDriver, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create("t")
    join(broker, "a", "t.*")
    with monkeypatch.context() as patched:

        def fails(*_: object, **__: object) -> None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk fails")

        patched.setattr(broker.broker.groups, "apply", fails)
        broker.advance(0)
    assert resolved(broker) == {}
    broker.advance(500)
    assert set(resolved(broker)) == {"t.*"}
    assert compiled == ["t.*"]


def test_a_malformed_expression_of_another_broker_matches_nothing(
    broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("broker_embedded._groups.consumer.regexes.Pattern", lambda _: None)
        join(broker, "a", "(")
    broker.advance(0)
    assert resolved(broker) == {"(": set()}


def test_the_broker_stops_while_an_expression_is_matched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BrokerDriver(tmp_path / "data") as broker, slow_matching(monkeypatch) as slow:
        for number in range(3):
            broker.create(f"t{number}")
        join(broker, "a", "t.*")
        broker.run(eventually_async(slow.begun.is_set, True))
        broker.broker.patterns.stop()
        slow.released.set()
        broker.restart()
        assert slow.count == 1, "the other names are not matched any more"
        assert resolved(broker) == {}


def test_names_are_matched_in_parts_and_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_matcher, "_SLICE_NS", 0)
    matcher = PatternMatcher(timers_for(ManualClock()))
    names = ["a1", "b1", "a2", "b2", "a3"]
    assert asyncio.run(matcher.matching("a.", names)) == {"a1", "a2", "a3"}
    assert asyncio.run(matcher.matching("a.", [])) == frozenset()
    with pytest.raises(PatternError):
        asyncio.run(matcher.matching("(", names))
    matcher.stop()
    assert refused(asyncio.run, matcher.matching("a.", names)).code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("names", [[], ["x1"]])
async def test_the_event_loop_runs_other_tasks_after_each_compilation(compiled: list[str], names: list[str]) -> None:
    matcher = PatternMatcher(timers_for(ManualClock()))
    expressions = [f"x{number}" for number in range(5)]

    seen = set[int]()

    async def watch() -> None:
        while len(compiled) < len(expressions):
            seen.add(len(compiled))
            await asyncio.sleep(0)

    found, _ = await asyncio.gather(matcher.matching_each("g", expressions, names), watch())
    assert found == {regex: frozenset({"x1"} & {regex} & set(names)) for regex in expressions}
    assert seen >= {1, 2, 3, 4}
    matcher.stop()


async def test_kept_expressions_take_a_bounded_number_of_bytes(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pattern_matcher, "MAX_KEPT_BYTES", 3 * MAX_PROGRAM_BYTES)
    matcher = PatternMatcher(timers_for(ManualClock()))

    for _ in range(2):
        await matcher.matching_each("g", ["a+", "b+"], ["a"])
        await matcher.matching_each("h", ["c+", "d+"], ["a"])
        assert matcher._kept_bytes == 3 * MAX_PROGRAM_BYTES
    matcher.forget("g")
    matcher.forget("g")
    assert matcher._kept_bytes == MAX_PROGRAM_BYTES
    matcher.stop()
    assert compiled == ["a+", "b+", "c+", "d+", "d+"]


class Counted(Pattern):
    """A pattern that knows how many bytes all that exist may take."""

    live: ClassVar[weakref.WeakSet[Pattern]] = weakref.WeakSet()

    def __init__(self, expression: str) -> None:
        super().__init__(expression)
        self.live.add(self)

    @classmethod
    def bytes(cls) -> int:
        return sum(pattern.max_bytes for pattern in cls.live)


async def test_compiled_expressions_take_a_bounded_number_of_bytes_during_a_lookup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pattern_matcher, "Pattern", Counted)
    monkeypatch.setattr(pattern_matcher, "MAX_KEPT_BYTES", 3 * MAX_PROGRAM_BYTES)
    monkeypatch.setattr(pattern_matcher, "_MAX_PENDING", 1)
    matcher = PatternMatcher(timers_for(ManualClock()))
    most = 0
    fullmatch = Pattern.fullmatch

    def observed(pattern: Pattern, name: str) -> bool:
        nonlocal most
        most = max(most, Counted.bytes())
        return fullmatch(pattern, name)

    monkeypatch.setattr(Counted, "fullmatch", observed)

    groups = [matcher.matching_each(f"g{number}", [f"{number}.*", f"x{number}+"], ["1a"]) for number in range(10)]
    found = await asyncio.gather(*groups, *(matcher.matching(f"{number}a+", ["1a"]) for number in range(10)))
    assert [len(each) for each in found] == [2] * 10 + [0, 1] + [0] * 8
    matcher.stop()
    # Each of the two threads may still hold the expression that it has just finished, beside the pending one.
    assert 3 * MAX_PROGRAM_BYTES < most <= 7 * MAX_PROGRAM_BYTES


async def test_requests_that_are_pending_keep_no_group_from_its_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_matcher, "_MAX_PENDING", 1)
    monkeypatch.setattr(pattern_matcher, "_SLICE_NS", 0)
    matcher = PatternMatcher(timers_for(ManualClock()))

    order = list[str]()

    async def request(name: str) -> None:
        await matcher.matching("a+", [str(number) for number in range(100)])
        order.append(name)

    async def lookup() -> None:
        await matcher.matching_each("g", ["b+"], ["b"])
        order.append("lookup")

    await asyncio.gather(request("first"), request("second"), lookup())
    assert order == ["lookup", "first", "second"]
    matcher.stop()


async def test_a_lookup_of_a_group_does_not_wait_for_a_name_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = threading.Event(), threading.Event()

    def fullmatch(_: object, name: str) -> bool:
        if name == "transactional-id":
            begun.set()
            assert released.wait(DEADLINE_S)
        return True

    monkeypatch.setattr(Pattern, "fullmatch", fullmatch)
    matcher = PatternMatcher(timers_for(ManualClock()))

    request = asyncio.ensure_future(matcher.matching("a+", ["transactional-id"]))
    await eventually_async(begun.is_set, True)
    try:
        async with asyncio.timeout(DEADLINE_S):
            assert await matcher.matching_each("g", ["b+"], ["b"]) == {"b+": {"b"}}
    finally:
        released.set()
    assert await request == {"transactional-id"}
    matcher.stop()


async def test_a_slow_expression_yields_to_the_event_loop_after_a_time_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock passes as if each name of the first expression took longer than a slice."""
    now_ns, order = 0, list[str]()

    def fullmatch(_: object, name: str) -> bool:
        nonlocal now_ns
        order.append(name)
        now_ns += 60_000_000 if name.startswith("slow") else 1
        return True

    monkeypatch.setattr(Pattern, "fullmatch", fullmatch)
    monkeypatch.setattr("time.perf_counter_ns", lambda: now_ns)
    matcher = PatternMatcher(timers_for(ManualClock()))

    slow, quick = [f"slow{number}" for number in range(10)], [f"quick{number}" for number in range(300)]
    found = await asyncio.gather(matcher.matching("a", slow), matcher.matching("b", quick))
    assert [len(names) for names in found] == [10, 300]
    matcher.stop()
    last_quick = max(index for index, name in enumerate(order) if name.startswith("quick"))
    assert sum(name.startswith("slow") for name in order[:last_quick]) <= 3
