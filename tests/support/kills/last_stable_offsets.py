"""How long consumers of committed records are held up: the last stable offset of a topic, looked at all the time.

A partition stands still while it has records after the last stable offset and that offset does not move.
"""

import time
from typing import Self

from spark_kafka_native._protocol.errors import KafkaError
from tests.support.clients.topics import Topics
from tests.support.kills.background import Background

PAUSE_S = 0.2
JOIN_TIMEOUT_S = 120.0


class Standstill(Background):
    """Looks while the context is open."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(f"standstill of {topic}", JOIN_TIMEOUT_S)
        self._longest_s = 0.0
        self._servers = servers
        self._topic = topic
        self._moved_at: dict[int, float] = {}
        self._stable: dict[int, int] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def longest_s(self) -> float:
        """For how long a partition's readers got nothing of what it has. Raises what has ended the looking."""
        self.raise_if_failed()
        assert self._thread.is_alive(), "the thread has ended"
        assert self._moved_at, "nothing was seen"
        return self._longest_s

    def _work(self) -> None:
        with Topics(self._servers) as topics, Topics(self._servers, "read_committed") as committed:
            while not self._ending.wait(PAUSE_S):
                try:
                    stable, ends = committed.ends(self._topic), topics.ends(self._topic)
                except KafkaError:
                    continue  # the broker is down: so are its consumers
                for partition, end in ends.items():
                    self._seen(partition, stable[partition], end)

    def _seen(self, partition: int, stable: int, end: int) -> None:
        now = time.monotonic()
        if stable >= end or stable != self._stable.get(partition):
            self._stable[partition], self._moved_at[partition] = stable, now
        self._longest_s = max(self._longest_s, now - self._moved_at[partition])
