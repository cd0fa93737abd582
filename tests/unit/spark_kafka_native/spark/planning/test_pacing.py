import itertools
import time

from spark_kafka_native.spark.planning.pacing import Clock, RefreshPacer


def looked_up_at(pacer: RefreshPacer, until_ms: float, *, moved: bool) -> list[float]:
    times, now_ms = [], 0.0
    while now_ms < until_ms:
        if pacer.due(now_ms):
            times.append(now_ms)
            pacer.looked_up(now_ms, moved=moved)
        now_ms += 1.0
    return times


def test_lookup_pauses_grow_while_offsets_do_not_move() -> None:
    times = looked_up_at(RefreshPacer(), 2000, moved=False)
    assert times[:6] == [0, 15, 45, 105, 225, 465]
    assert {later - earlier for earlier, later in itertools.pairwise(times[5:])} == {250}


def test_no_lookup_pause_while_offsets_move() -> None:
    assert len(looked_up_at(RefreshPacer(), 50, moved=True)) == 50


def test_moved_offsets_reset_the_lookup_pause() -> None:
    pacer = RefreshPacer()
    for _ in range(10):
        pacer.looked_up(0, moved=False)
    assert not pacer.due(249)
    pacer.looked_up(250, moved=True)
    assert pacer.due(250)


def test_pacer_is_idle_if_offsets_have_not_moved() -> None:
    pacer = RefreshPacer()
    assert not pacer.idle
    pacer.looked_up(0, moved=False)
    assert pacer.idle
    pacer.looked_up(15, moved=True)
    assert not pacer.idle


def test_system_clock_advances_during_sleep() -> None:
    clock = Clock()
    start = clock.now_ms()
    clock.sleep_ms(2)
    assert clock.now_ms() - start >= 2
    assert time.monotonic() * 1000 <= clock.now_ms() <= time.monotonic() * 1000
    assert time.time() * 1000 - 1 <= clock.epoch_ms() <= time.time() * 1000 + 1
