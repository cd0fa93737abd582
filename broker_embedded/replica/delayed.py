"""Requests that wait: for partitions to change, or just for time to pass. No thread, no polling, one timer each."""

import asyncio
from collections.abc import Callable, Iterable

from broker_embedded.platform.timers import Timers
from spark_kafka_native.protocol.topic import TopicPartition


class DelayedOperations:
    """Who waits for which partitions. Belongs to one event loop."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._waiting: dict[TopicPartition, set[_Wait]] = {}
        self._all: set[_Wait] = set()
        self._closed = False

    def wait(
        self, partitions: Iterable[TopicPartition], timeout_ms: int, is_done: Callable[[TopicPartition], bool]
    ) -> "asyncio.Future[None]":
        """Done when ``is_done`` says so of a partition that has changed, after the timeout, or once ``release`` runs.

        Who looks at partitions and calls this at once, with nothing awaited between, misses no change, however much
        later the answer is awaited. ``is_done`` is called on each change of one of ``partitions``, inside ``changed``.
        If it raises, the result raises the same error. Cancel what is not awaited to the end.
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
        """Done in ``ms`` milliseconds, or once ``release`` runs."""
        return self.wait((), ms, lambda _: False)

    def changed(self, partition: TopicPartition) -> None:
        """Complete the delayed requests of a partition that are satisfied now, after an append to it or its deletion.

        An error of one delayed request fails that request only, not the append and not another delayed request.
        """
        for wait in self._waiting.get(partition, ()):
            if not wait.ended.done():
                try:
                    is_done = wait.is_done(partition)
                except Exception as error:  # passed on to the request that waits
                    wait.ended.set_exception(error)
                else:
                    if is_done:
                        wait.end()

    def release(self) -> None:
        """Let everybody go on, now and from now on: the broker stops."""
        self._closed = True
        for wait in self._all:
            wait.end()

    @property
    def count(self) -> int:
        """How many requests wait."""
        return len(self._all)


class _Wait:
    __slots__ = ("ended", "is_done")

    def __init__(self, ended: "asyncio.Future[None]", is_done: Callable[[TopicPartition], bool]) -> None:
        self.ended = ended
        self.is_done = is_done

    def end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
