import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_embedded._log.log import Log
from broker_embedded._log.timestamp_lookup import ContinueAt
from broker_embedded._platform.cancellation import Cancellation
from broker_embedded._server.status import record_reader
from broker_embedded._server.status.query import StatusError
from broker_embedded._server.status.record_reader import RecordReader
from broker_embedded._server.status.worker_protocol import PageRequest


@pytest.fixture
async def reader() -> AsyncIterator[RecordReader]:
    made = RecordReader()
    yield made
    made.kill()
    made.join()


def log_of(look_up: Any) -> Log:
    """A log with this lookup of times."""
    return cast("Log", SimpleNamespace(reader=SimpleNamespace(look_up=look_up)))


async def test_a_fifth_request_is_refused_while_four_wait(reader: RecordReader) -> None:
    release = threading.Event()
    log = log_of(lambda *_: None if release.wait(30) else pytest.fail("it was not released"))
    *waiting, fifth = [asyncio.create_task(reader.offset_at(log, 0, number)) for number in range(5)]
    try:
        with pytest.raises(StatusError) as refused:
            await fifth
    finally:
        release.set()
    error = refused.value
    assert (error.status, str(error)) == (503, "other searches of this page are running; try again")
    assert error.headers == {"Retry-After": "1"}
    assert await asyncio.gather(*waiting) == [0, 1, 2, 3]
    assert await reader.offset_at(log, 0, 4) == 4


async def test_a_lookup_of_a_time_has_a_limit_of_time(reader: RecordReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup continues after each batch whose header has a larger timestamp than its records."""

    def look_up(_: int, offset: int, __: Cancellation) -> ContinueAt:
        assert offset < 1_000_000, "it has no limit"
        return ContinueAt(offset + 1)

    monkeypatch.setattr(record_reader, "_LOOKUP_S", 0.0)
    for log in (log_of(look_up), log_of(one_batch_of_many_pieces)):
        with pytest.raises(StatusError) as late:
            await reader.offset_at(log, 0, 1)
        assert (late.value.status, str(late.value)) == (
            503,
            "the time cannot be looked up within 0 s; start at an offset",
        )


def one_batch_of_many_pieces(_: int, __: int, cancellation: Cancellation) -> None:
    assert sum(1 for _ in cancellation.between(range(10_000_000))) == 0, "it has no limit"


async def test_a_lookup_ends_when_the_broker_stops(reader: RecordReader) -> None:
    begun = threading.Event()

    def look_up(_: int, __: int, cancellation: Cancellation) -> None:
        for _piece in cancellation.between(itertools.repeat(None)):
            begun.set()

    lookup = asyncio.create_task(reader.offset_at(log_of(look_up), 0, 1))
    await asyncio.to_thread(begun.wait, 30)
    reader.kill()
    with pytest.raises(StatusError) as stopped:
        await lookup
    assert (stopped.value.status, str(stopped.value)) == (503, "the broker stops")


async def test_records_that_were_deleted_while_a_request_waited_are_skipped(reader: RecordReader) -> None:
    read: list[int] = []

    def read_slice(offset: int, **_: Any) -> Any:
        read.append(offset)
        return SimpleNamespace(regions=())

    log = cast("Log", SimpleNamespace(reader=SimpleNamespace(read=read_slice), log_start_offset=5))
    page = await reader.page(log, PageRequest(offset=2, end=9, limit=1, shown_bytes=1))
    assert (read, json.loads(page)["next_offset"]) == ([5], 9)


async def test_requests_are_refused_while_the_broker_stops(reader: RecordReader) -> None:
    log = log_of(lambda *_: None)
    assert await reader.offset_at(log, 0, 7) == 7
    reader.kill()
    with pytest.raises(StatusError) as refused:
        await reader.offset_at(log, 0, 7)
    assert (refused.value.status, str(refused.value)) == (503, "the broker stops")
