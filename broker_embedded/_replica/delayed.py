"""Delayed requests (Kafka's purgatory): they wait for a change of partitions, or for a timeout. One timer each."""

import asyncio
from collections.abc import Callable, Iterable

from broker_embedded._platform.timers import Timers
from spark_kafka_native._protocol.topic import TopicPartition


class DelayedOperations:
    """The delayed requests of each partition. Belongs to one event loop."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiting: dict[TopicPartition, set[_Wait]] = {}
        self._all: set[_Wait] = set()
        self._closed = False

    def wait(
        self, partitions: Iterable[TopicPartition], timeout_ms: int, is_done: Callable[[TopicPartition], bool]
    ) -> "asyncio.Future[None]":
        """A future that is done when ``is_done`` is true for a changed partition, at the timeout, or by ``release``.

        A caller that reads partitions and calls this without an await between misses no change. ``is_done`` is called
        on each change of one of ``partitions``, inside ``changed``. If it raises, the future raises the same error. A
        future that is no longer needed must be cancelled.
        """
        ended = asyncio.get_running_loop().create_future()
        if self._closed:
            ended.set_result(None)
            return ended
        wait = _Wait(ended, is_done)
        keys = set(partitions)
        self._all.add(wait)
        for key in keys:
            self._waiting.setdefault(key, set()).add(wait)
        timer = self._timers.at(self._timers.now_ms() + timeout_ms, wait.end)

        def forget(_: "asyncio.Future[None]") -> None:
            timer.cancel()
            self._all.discard(wait)
            for key in keys:
                self._waiting[key].discard(wait)
                if not self._waiting[key]:
                    del self._waiting[key]

        ended.add_done_callback(forget)
        return ended

    def pause(self, ms: int) -> "asyncio.Future[None]":
        """A future that is done in ``ms`` milliseconds, or after ``release``."""
        return self.wait((), ms, lambda _: False)

    def changed(self, partition: TopicPartition) -> None:
        """Complete the delayed requests of a partition that are satisfied now, after an append to it or its deletion.

        An error of one delayed request fails that request only, not the append and not another delayed request.
        """
        for wait in self._waiting.get(partition, ()):
            if not wait.ended.done():
                try:
                    is_done = wait.is_done(partition)
                except Exception as error:  # raised in the delayed request
                    wait.ended.set_exception(error)
                else:
                    if is_done:
                        wait.end()

    def release(self) -> None:
        """Complete all delayed requests, now and from now on: the broker stops."""
        self._closed = True
        for wait in self._all:
            wait.end()

    @property
    def count(self) -> int:
        """The number of delayed requests."""
        return len(self._all)


class _Wait:
    __slots__ = ("ended", "is_done")

    def __init__(self, ended: "asyncio.Future[None]", is_done: Callable[[TopicPartition], bool]) -> None:
        self.ended = ended
        self.is_done = is_done

    def end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
