import threading
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from spark_kafka_native._record_clients.producer import futures
from spark_kafka_native._record_clients.producer.futures import RecordFuture, ResultCondition, complete
from spark_kafka_native._record_clients.records import RecordMetadata
from tests.support.interrupts import interrupted_everywhere

WRITTEN = RecordMetadata("t", 1, 7, 1000)


@pytest.fixture
def condition() -> ResultCondition:
    return ResultCondition()


@pytest.fixture
def future(condition: ResultCondition) -> RecordFuture:
    return RecordFuture(condition)


def test_a_result_is_returned_to_those_who_wait(future: RecordFuture, condition: ResultCondition) -> None:
    found: list[RecordMetadata] = []
    waiting = threading.Thread(target=lambda: found.append(future.result(60)))
    waiting.start()
    assert future.begin()
    assert (future.running(), future.done()) == (True, False)
    complete([(future, WRITTEN)], condition)
    waiting.join()
    assert found == [WRITTEN]
    assert (future.running(), future.done(), future.cancelled()) == (False, True, False)
    assert future.exception() is None


def test_an_error_is_raised_by_result_and_returned_by_exception(
    future: RecordFuture, condition: ResultCondition
) -> None:
    error = ValueError("too large")
    complete([(future, error)], condition)
    assert future.exception() is error
    with pytest.raises(ValueError, match="too large"):
        future.result()


def test_a_result_that_does_not_come_is_a_timeout(future: RecordFuture) -> None:
    with pytest.raises(TimeoutError, match="no result after 0 s"):
        future.result(0)


def test_a_record_can_be_cancelled_before_it_is_sent(future: RecordFuture, condition: ResultCondition) -> None:
    assert future.cancel()
    assert future.cancel(), "again"
    assert not future.begin()
    complete([(future, WRITTEN)], condition)
    assert future.cancelled()
    for read in (future.result, future.exception):
        with pytest.raises(CancelledError):
            read()


@pytest.mark.parametrize("is_done", [False, True])
def test_a_record_that_is_sent_cannot_be_cancelled(
    future: RecordFuture, condition: ResultCondition, is_done: bool
) -> None:
    future.begin()
    if is_done:
        complete([(future, WRITTEN)], condition)
    assert not future.cancel()
    assert not future.cancelled()


def test_the_first_result_stays(future: RecordFuture, condition: ResultCondition) -> None:
    complete([(future, WRITTEN), (future, ValueError("later"))], condition)
    assert future.result() == WRITTEN


def test_callbacks_are_called_once_in_order_and_see_the_result(
    future: RecordFuture, condition: ResultCondition
) -> None:
    called: list[tuple[str, RecordMetadata]] = []
    for name in ("first", "second"):
        future.add_done_callback(lambda done, name=name: called.append((name, done.result(0))))  # type: ignore[misc]  # a default fixes the name
    assert called == []
    complete([(future, WRITTEN)], condition)
    future.add_done_callback(lambda done: called.append(("late", done.result(0))))
    assert called == [("first", WRITTEN), ("second", WRITTEN), ("late", WRITTEN)]


def test_callbacks_of_a_cancelled_record_are_called(future: RecordFuture) -> None:
    called: list[RecordFuture] = []
    future.add_done_callback(called.append)
    future.cancel()
    assert called == [future]


def test_an_error_of_a_callback_is_logged_and_stops_no_other(
    future: RecordFuture, condition: ResultCondition, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: RecordFuture) -> None:
        raise RuntimeError("of the user")

    called: list[RecordFuture] = []
    other = RecordFuture(condition)
    future.add_done_callback(fail)
    future.add_done_callback(called.append)
    other.add_done_callback(called.append)
    complete([(future, WRITTEN), (other, WRITTEN)], condition)
    assert called == [future, other]
    assert "a callback of a record failed" in caplog.text
    assert "of the user" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_the_main_thread_is_raised_after_all_callbacks(
    future: RecordFuture, condition: ResultCondition, error: type[BaseException]
) -> None:
    def interrupt(_: RecordFuture) -> None:
        raise error

    called: list[RecordFuture] = []
    future.add_done_callback(interrupt)
    future.add_done_callback(called.append)
    with pytest.raises(error):
        complete([(future, WRITTEN)], condition)
    assert called == [future]
    future.add_done_callback(called.append)
    assert called == [future, future]


def _wait(future: RecordFuture) -> None:
    with pytest.raises(TimeoutError):
        future.exception(0)


@pytest.mark.parametrize(
    "use",
    [
        lambda future, _: future.begin(),
        lambda future, _: future.cancel(),
        lambda future, _: future.add_done_callback(repr),
        lambda future, _: _wait(future),
        lambda future, condition: complete([(future, WRITTEN)], condition),
    ],
    ids=["begin", "cancel", "add_done_callback", "exception", "complete"],
)
def test_an_interrupt_leaves_no_lock_locked(
    condition: ResultCondition, use: Callable[[RecordFuture, ResultCondition], object]
) -> None:
    for place in interrupted_everywhere(lambda: use(RecordFuture(condition), condition), futures):
        assert not condition.lock._is_owned(), place  # type: ignore[attr-defined]  # missing in its stub
