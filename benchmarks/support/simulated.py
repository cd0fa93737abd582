"""A cluster of more partitions than a machine could hold: brokers that answer from memory, in a process of their own.

They are those of the tests (`tests.support.scripted.cluster`): plain Python that makes every response, so the
time they take is a good part of what a client waits. `SimulatedCluster.cpu_seconds` says how much that is.
"""

import multiprocessing
import time
from collections import Counter
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, Final, Self

from spark_kafka_native._protocol.schema import Request
from tests.support.scripted.cluster import ScriptedCluster

START_TIMEOUT_S: Final = 120.0


class SimulatedCluster:
    """So many brokers with ``topics`` of so many partitions, each of which ends at ``end``; a context manager."""

    def __init__(self, brokers: int, topics: Mapping[str, int], end: int = 1) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(far_end, brokers, dict(topics), end), daemon=True)
        self._process.start()
        far_end.close()
        if not self._pipe.poll(START_TIMEOUT_S):
            raise TimeoutError("the simulated cluster did not start")
        self.bootstrap_servers: str = self._pipe.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()  # ends it
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def forget_requests(self) -> None:
        """Count from here on."""
        self._ask("forget")

    def request_counts(self) -> Counter[str]:
        """The requests since then, by API."""
        return Counter(self._ask("count"))

    def cpu_seconds(self) -> float:
        """What the brokers have taken so far."""
        return float(self._ask("cpu"))

    def _ask(self, question: str) -> Any:
        self._pipe.send(question)
        return self._pipe.recv()


Received = tuple[int, Request[Any], int]


class _Counted(list[Received]):
    """Stays empty: requests that name many thousand partitions are counted and not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def append(self, received: Received) -> None:
        """Count one."""
        self.counts[type(received[1]).api_name] += 1


def _serve(pipe: Connection, brokers: int, topics: dict[str, int], end: int) -> None:
    with ScriptedCluster(brokers=brokers, topics=topics) as cluster:
        cluster.received = counted = _Counted()
        for topic in cluster.state.topics.values():
            for partition in topic.partitions.values():
                partition.log_end = end
        pipe.send(cluster.bootstrap_servers)
        while True:
            try:
                question = pipe.recv()
            except (EOFError, OSError):
                return
            pipe.send(_response(counted, question))


def _response(counted: _Counted, what: str) -> object:
    match what:
        case "forget":
            counted.counts.clear()
        case "count":
            return Counter(counted.counts)
        case "cpu":
            return time.process_time()
    return None
