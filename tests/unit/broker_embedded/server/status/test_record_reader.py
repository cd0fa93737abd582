import asyncio
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker_embedded._log.log import Log
from broker_embedded._log.timestamp_lookup import ContinueAt
from broker_embedded._server.status import record_reader
from broker_embedded._server.status.query import StatusError
from broker_embedded._server.status.record_reader import RecordReader


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
    waiting = [asyncio.create_task(reader.offset_at(log, 0, number)) for number in range(4)]
    await asyncio.sleep(0)
    try:
        with pytest.raises(StatusError) as refused:
            await reader.offset_at(log, 0, 4)
    finally:
        release.set()
    error = refused.value
    assert (error.status, str(error)) == (503, "other searches of this page are running; try again")
    assert error.headers == {"Retry-After": "1"}
    assert await asyncio.gather(*waiting) == [0, 1, 2, 3]
    assert await reader.offset_at(log, 0, 4) == 4


async def test_a_lookup_of_a_time_has_a_limit_of_time(reader: RecordReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup continues after each batch whose header has a larger timestamp than its records."""

    def look_up(_: int, offset: int) -> ContinueAt:
        assert offset < 1_000_000, "it has no limit"
        return ContinueAt(offset + 1)

    monkeypatch.setattr(record_reader, "_LOOKUP_S", 0.0)
    with pytest.raises(StatusError) as late:
        await reader.offset_at(log_of(look_up), 0, 1)
    assert (late.value.status, str(late.value)) == (503, "no record was found within 0 s")


async def test_requests_are_refused_while_the_broker_stops(reader: RecordReader) -> None:
    log = log_of(lambda *_: None)
    assert await reader.offset_at(log, 0, 7) == 7
    reader.kill()
    with pytest.raises(StatusError) as refused:
        await reader.offset_at(log, 0, 7)
    assert (refused.value.status, str(refused.value)) == (503, "the broker stops")
