import threading
from typing import Any

import pytest

from spark_kafka_native._record_clients.producer import queue as queue_module
from spark_kafka_native._record_clients.producer.futures import ResultCondition
from spark_kafka_native._record_clients.producer.handlers import QueuedRecord
from spark_kafka_native._record_clients.producer.queue import RecordQueue
from spark_kafka_native._record_clients.records import ProducerRecord
from tests.support.interrupts import interrupted_everywhere

CONDITION = ResultCondition()


class Driver:
    """A queue with a clock and a count of wake-ups."""

    def __init__(self, **options: Any) -> None:
        self.now = 100.0
        self.wake_ups = 0
        defaults = {"max_records": 5, "max_bytes": 10_000, "linger_s": 2.0, "batch_records": 3}
        self.queue = RecordQueue(**{**defaults, **options}, wake_up=self._count, clock=lambda: self.now)

    def _count(self) -> None:
        self.wake_ups += 1

    def put(self, value: bytes = b"v", timeout_s: float | None = 0) -> bool:
        return self.queue.put(QueuedRecord(ProducerRecord("t", value), CONDITION), timeout_s)

    def taken(self) -> list[bytes]:
        return [record.record.value for record in self.queue.take()]


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_records_are_due_after_linger_ms(driver: Driver) -> None:
    assert driver.queue.due_in_s() is None
    driver.put(b"a")
    driver.now += 1.5
    driver.put(b"b")
    assert driver.queue.due_in_s() == 0.5, "counted from the first record"
    driver.now += 1
    assert driver.queue.due_in_s() == 0
    assert driver.taken() == [b"a", b"b"]
    assert (driver.queue.due_in_s(), len(driver.queue)) == (None, 0)


def test_linger_ms_begins_again_with_the_first_record_after_take(driver: Driver) -> None:
    driver.put()
    driver.taken()
    driver.now += 10
    driver.put()
    assert driver.queue.due_in_s() == 2


def test_records_are_due_once_there_are_batch_num_messages(driver: Driver) -> None:
    for _ in range(2):
        driver.put()
    assert driver.queue.due_in_s() == 2
    driver.put()
    assert driver.queue.due_in_s() == 0


def test_the_sending_thread_is_woken_up_when_it_has_to_wait_less(driver: Driver) -> None:
    found = []
    for _ in range(5):
        driver.put()
        found.append(driver.wake_ups)
    assert found == [1, 1, 2, 2, 2], "for the first record, and for the third"
    driver.queue.make_due()
    assert driver.wake_ups == 3
    assert driver.queue.due_in_s() == 0


def test_make_due_makes_records_due_at_once_but_not_later_ones(driver: Driver) -> None:
    driver.put()
    driver.queue.make_due()
    assert driver.queue.due_in_s() == 0
    driver.taken()
    driver.put()
    assert driver.queue.due_in_s() == 2


def test_a_full_queue_refuses_records_without_a_wait(driver: Driver) -> None:
    assert [driver.put(b"%d" % number) for number in range(6)] == [True] * 5 + [False]
    assert driver.taken() == [b"%d" % number for number in range(5)]
    assert driver.put()


def test_keys_and_values_have_a_bound_of_bytes() -> None:
    driver = Driver(max_bytes=1500)
    assert driver.put(b"x" * 700)
    assert not driver.put(b"y" * 800)
    assert driver.put(b"z" * 10), "a smaller record still fits"
    driver.taken()
    assert driver.put(b"y" * 800)


def test_one_record_always_fits() -> None:
    driver = Driver(max_bytes=1000)
    assert driver.put(b"x" * 5000)
    assert not driver.put(b"")


@pytest.mark.parametrize("timeout_s", [None, 60.0])
def test_put_waits_for_space(driver: Driver, timeout_s: float | None) -> None:
    for number in range(5):
        driver.put(b"%d" % number)
    results: list[bool] = []
    waiting = threading.Thread(target=lambda: results.append(driver.put(b"last", timeout_s)))
    waiting.start()
    taken: list[bytes] = []
    while waiting.is_alive():
        taken += driver.taken()
    assert results == [True]
    assert [*taken, *driver.taken()] == [b"0", b"1", b"2", b"3", b"4", b"last"]


def test_a_closed_queue_takes_no_record_and_ends_waits(driver: Driver) -> None:
    for _ in range(5):
        driver.put()
    results: list[bool] = []
    waiting = threading.Thread(target=lambda: results.append(driver.put(b"never", None)))
    waiting.start()
    driver.queue.close()
    waiting.join()
    assert results == [False]
    assert driver.queue.due_in_s() == 0
    assert len(driver.taken()) == 5
    assert not driver.put()


def test_a_queue_that_is_closed_again_wakes_up_no_thread(driver: Driver) -> None:
    driver.queue.close()
    before = driver.wake_ups
    driver.queue.close()
    assert driver.wake_ups == before


def test_a_signal_handler_can_put_a_record_while_put_is_interrupted() -> None:
    driver = Driver()
    seen: list[bool] = []

    def signal() -> float:
        if not seen:
            seen.append(driver.queue.is_in_use)
            driver.put(b"of the handler")
        return 100.0

    driver.queue._clock = signal
    assert driver.put(b"interrupted")
    assert seen == [True]
    assert not driver.queue.is_in_use
    assert sorted(driver.taken()) == [b"interrupted", b"of the handler"]


def test_records_of_other_threads_that_fill_the_queue_again_are_due_for_those_that_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = Driver(max_records=2)
    due: list[float | None] = []

    def wait(_: float | None) -> bool:
        due.append(small.queue.due_in_s())
        small.taken()
        if len(due) == 1:
            assert all(small.put() for _ in range(2)), "records of another thread, which was faster"
        return True

    monkeypatch.setattr(small.queue._not_full, "wait", wait)
    assert [small.put(timeout_s=None) for _ in range(3)] == [True] * 3
    assert due == [0, 0]
    assert small.queue.due_in_s() == 2, "the last one waits linger.ms"


@pytest.mark.parametrize("use", ["put", "make_due", "take"])
def test_an_interrupt_leaves_no_lock_locked(use: str) -> None:
    driver = Driver(max_records=100)
    act = driver.put if use == "put" else getattr(driver.queue, use)
    for place in interrupted_everywhere(act, queue_module):
        assert not driver.queue.is_in_use, place
