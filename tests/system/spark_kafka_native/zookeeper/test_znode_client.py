"""Znodes in one session: the time limit of a call, and the session's timeout."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.znode_client import ZnodeClient
from tests.support.servers.kafka_on_zookeeper import zookeeper_client
from tests.support.waiting import eventually


@pytest.fixture
def zookeeper(zookeeper_connect: str) -> Iterator[KazooClient]:
    with zookeeper_client(zookeeper_connect) as client:
        yield client


@pytest.fixture
def znodes(zookeeper: KazooClient, zookeeper_connect: str) -> Iterator[ZnodeClient]:
    opened = ZnodeClient.open(
        ConnectString.parse(zookeeper_connect),
        session_timeout_ms=60_000,
        connection_timeout_ms=30_000,
        wake=lambda: None,
        is_cancelled=lambda: False,
    )
    yield opened
    opened.close()


class SlowResult:
    """A result of kazoo that comes late, and the time that its caller had for it."""

    def __init__(self, result: Any, pause_s: float, times: list[float]) -> None:
        self._result = result
        self._pause_s = pause_s
        self._times = times

    def get(self, timeout: float) -> Any:
        self._times.append(timeout)
        time.sleep(self._pause_s)
        return self._result.get(timeout=30)


def slow_down(znodes: ZnodeClient, monkeypatch: pytest.MonkeyPatch, *, pause_s: float) -> list[float]:
    """The times that callers have for the results of requests from now on, each of which comes late."""
    kazoo, times = znodes._client, list[float]()
    assert kazoo is not None
    for name in ("set_async", "create_async", "exists_async", "get_async"):
        request = getattr(kazoo, name)
        monkeypatch.setattr(
            kazoo, name, lambda *args, request=request, **named: SlowResult(request(*args, **named), pause_s, times)
        )
    return times


def test_the_responses_to_one_call_have_one_time_limit(
    znodes: ZnodeClient, zookeeper: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = slow_down(znodes, monkeypatch, pause_s=0.01)
    znodes.put({"/a": b"1", "/b": b"2"})  # two to set, and two to create
    assert len(times) == 4
    assert times == sorted(set(times), reverse=True)
    times.clear()
    znodes.values(["/a", "/b"])
    assert len(times) == 2
    assert times == sorted(set(times), reverse=True)
    assert (zookeeper.get("/a")[0], zookeeper.get("/b")[0]) == (b"1", b"2")


def test_a_call_with_many_requests_has_the_time_limit_again_for_each_hundred(
    znodes: ZnodeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = slow_down(znodes, monkeypatch, pause_s=0.001)
    assert znodes.values([f"/missing/{number}" for number in range(250)]) == {}
    extended = [number for number, (before, after) in enumerate(itertools.pairwise(times), 1) if after > before]
    assert (len(times), extended) == (250, [100, 200])


def test_the_timeout_of_a_session_is_that_of_the_server(znodes: ZnodeClient) -> None:
    # The longest that the server allows: 20 ticks of 500 ms. kazoo reports the session before it returns the timeout.
    eventually(lambda: znodes.session_timeout_ms, 10_000)
