from broker_embedded._coordinator.group_timers import GroupTimers
from broker_embedded._groups.group import CancelTimer, SetTimer
from broker_embedded._platform.platform import ManualClock
from broker_embedded._platform.timers import VirtualTimers

KEY, OTHER = ("session", "m"), ("join",)


def group_timers() -> tuple[GroupTimers, VirtualTimers, list[tuple[str, str]]]:
    timers = VirtualTimers(ManualClock())
    fired: list[tuple[str, str]] = []
    return GroupTimers(timers, lambda group, key: fired.append((group, key[0]))), timers, fired


def count(groups: GroupTimers) -> int:
    return sum(map(len, groups._groups.values()))


async def test_timers_fire_once_and_in_order() -> None:
    groups, timers, fired = group_timers()
    groups.change("g", SetTimer(key=KEY, after_ms=20))
    groups.change("h", SetTimer(key=KEY, after_ms=10))
    groups.change("g", SetTimer(key=OTHER, after_ms=15))
    await timers.advance(100)
    assert fired == [("h", "session"), ("g", "join"), ("g", "session")]
    assert count(groups) == 0


async def test_a_timer_that_is_prolonged_fires_later() -> None:
    groups, timers, fired = group_timers()
    groups.change("g", SetTimer(key=KEY, after_ms=10))
    for _ in range(10):
        await timers.advance(6)
        groups.change("g", SetTimer(key=KEY, after_ms=10))
    await timers.advance(9)
    assert fired == []
    assert count(groups) == 1
    await timers.advance(1)
    assert fired == [("g", "session")]
    assert count(groups) == 0
    for after_ms in (1000, 10):  # and earlier if it is shortened
        groups.change("h", SetTimer(key=KEY, after_ms=after_ms))
    await timers.advance(10)
    await timers.advance(2000)
    assert fired == [("g", "session"), ("h", "session")]


async def test_a_timer_that_is_cancelled_never_fires() -> None:
    groups, timers, fired = group_timers()
    for group in ("g", "h", "i"):
        for key in (KEY, OTHER):
            groups.change(group, SetTimer(key=key, after_ms=10))
    groups.change("g", CancelTimer(key=KEY))
    groups.change("g", CancelTimer(key=("nothing",)))
    groups.change("unknown", CancelTimer(key=KEY))
    groups.cancel_all("h")
    groups.cancel_all("unknown")
    assert count(groups) == 3
    groups.change("i", CancelTimer(key=OTHER))
    await timers.advance(10)
    assert fired == [("g", "join"), ("i", "session")]
    groups.change("g", SetTimer(key=KEY, after_ms=10))
    groups.close()
    await timers.advance(10)
    assert len(fired) == 2


async def test_a_timer_may_be_set_again_as_it_fires() -> None:
    _, timers, fired = group_timers()
    groups: GroupTimers

    def again(group: str, key: tuple[str, ...]) -> None:
        fired.append((group, key[0]))
        groups.change(group, SetTimer(key=key, after_ms=10))

    groups = GroupTimers(timers, again)
    groups.change("g", SetTimer(key=KEY, after_ms=0))
    await timers.advance(30)
    assert len(fired) == 4
