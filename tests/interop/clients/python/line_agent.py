"""How a foreign client is driven: one JSON object per line says what is to be done, one per line what came of it.

    {"do": "produce", "servers": "127.0.0.1:9092", "topic": "t", ...}   ->   {"answer": [[0, 17]]}
                                                                        or   {"error": "...", "code": 3}

`tests.support.clients.agent` says what there is to do. Agents in other languages do the same. Imports nothing but
Python's own library, because old clients live in virtual environments of their own.
"""

import inspect
import json
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

Json = Any

QUICK_MEMBER = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 100,
    "session_timeout_ms": 6000,
    "heartbeat_interval_ms": 300,
    "metadata_max_age_ms": 1000,
}
"""How kafka-python and aiokafka name the settings of members that soon learn what happens to their group."""


class GroupConsumer(Protocol):
    """What a client has to do for `MemberThread`. All its methods are called in one thread."""

    def poll(self) -> list[Json]:
        """Wait up to some 100 ms for records."""
        ...

    def assignment(self) -> list[tuple[str, int]]: ...

    def commit(self) -> None:
        """Commit the positions after the records that `poll` returned; return when the broker has them."""
        ...

    def close(self) -> None:
        """Leave the group without committing."""
        ...


class MemberThread:
    """One member of a group: a thread that polls all the time and does what it is asked between two polls."""

    def __init__(self, open_consumer: Callable[[], GroupConsumer]) -> None:
        self._open = open_consumer
        self._lock = threading.Lock()
        self._records: list[Json] = []
        self._assignment: list[tuple[str, int]] = []
        self._asked: Callable[[GroupConsumer], None] | None = None
        self._done = threading.Event()
        self._leaving = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def look(self) -> Json:
        """The partitions it has, and what it read since it was looked at last."""
        self._raise_failure()
        with self._lock:
            records, self._records = self._records, []
            return {"assignment": sorted(self._assignment), "records": records}

    def commit(self) -> None:
        self._done.clear()
        self._asked = lambda consumer: consumer.commit()
        while not self._done.wait(0.05) and self._thread.is_alive():
            pass
        self._raise_failure()

    def leave(self) -> None:
        self._leaving = True
        self._thread.join()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            consumer = self._open()
            try:
                while not self._leaving:
                    self._turn(consumer)
            finally:
                consumer.close()
        except BaseException as failure:  # the thread's last words; `look`, `commit` and `leave` raise it
            self._failure = failure

    def _turn(self, consumer: GroupConsumer) -> None:
        records = consumer.poll()
        with self._lock:
            self._records += records
            self._assignment = consumer.assignment()
        if self._asked is not None:
            asked, self._asked = self._asked, None
            asked(consumer)
            self._done.set()


class Agent:
    """An agent's public methods are what there is to do; members of groups are threads."""

    def __init__(self) -> None:
        self._members: dict[str, MemberThread] = {}

    def look(self, member: str) -> Json:
        return self._members[member].look()

    def commit(self, member: str) -> None:
        self._members[member].commit()

    def leave(self, member: str) -> None:
        self._members.pop(member).leave()

    def _code(self, error: BaseException) -> int | None:
        """Kafka's error code that a client's exception stands for."""
        return getattr(error, "errno", None)

    def _result(self, returned: Any) -> Json:
        """The result of an operation that has returned this."""
        return returned


def serve(agent: Agent) -> None:
    """Do what the lines of the standard input say, until it ends. What clients print goes to the standard error."""
    responses, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        response = _done(agent, json.loads(line))
        with suppress(BrokenPipeError):
            print(json.dumps(response), file=responses, flush=True)


def _done(agent: Agent, request: Mapping[str, Json]) -> Json:
    wanted = dict(request)
    operation = getattr(agent, wanted.pop("do"))
    known = inspect.signature(operation).parameters
    try:
        returned = operation(**{name: value for name, value in wanted.items() if name in known})
        return {"answer": agent._result(returned)}
    except Exception as error:  # every client has its own; the test decides what it means
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}", "code": agent._code(error)}


def described(record: Any) -> Json:
    """A consumer's record of kafka-python or aiokafka as agents tell of it."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[key, text(value)] for key, value in record.headers],
    }


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def encoded(value: str | None) -> bytes | None:
    return None if value is None else value.encode()
