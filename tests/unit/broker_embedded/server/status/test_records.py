import json
from typing import Any

import pytest

from broker_embedded._server.status import records
from broker_embedded._server.status.records import page_of_records
from broker_embedded._server.status.worker_protocol import PageRequest
from spark_kafka_native._records.conversion import write_batch
from spark_kafka_native._records.record import LogRecord


def batches(*sizes: int) -> bytearray:
    """Batches of so many records, one after the other."""
    stored = bytearray()
    offset = 0
    for size in sizes:
        rows = [LogRecord(offset + number, 1_700_000_000_000, b"k", b"v", b"\0") for number in range(size)]
        stored += write_batch(rows, base_offset=offset)
        offset += size
    return stored


def page(stored: bytearray, *, offset: int = 0, key: str | None = None, limit: int = 200) -> dict[str, Any]:
    request = PageRequest(offset=offset, end=10**6, limit=limit, shown_bytes=100, key=key)
    found: dict[str, Any] = json.loads(page_of_records(request, memoryview(stored)))
    return found


def test_a_page_that_takes_too_long_continues_within_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MAX_S", 0.0)
    stored = batches(5_000)
    offset, pages = 0, 0
    while offset < 5_000:
        found = page(stored, offset=offset, key="another")["next_offset"]
        assert offset < found <= offset + 1_024
        offset, pages = found, pages + 1
    assert pages == 5


def test_large_records_take_too_long_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MAX_S", 0.0)
    rows = [LogRecord(number, 1_700_000_000_000, b"k", bytes(1024 * 1024), b"\0") for number in range(3)]
    stored = write_batch(rows, base_offset=0)
    assert [page(stored, offset=offset)["next_offset"] for offset in range(3)] == [1, 2, 3]


def test_a_page_that_takes_too_long_ends_after_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MAX_S", 0.0)
    stored = batches(2, 2, 2)
    found = page(stored)
    assert (len(found["rows"]), found["next_offset"]) == (2, 2)
    assert page(stored[len(batches(2)) :], offset=2)["next_offset"] == 4


def test_every_skipped_batch_is_named_up_to_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_MAX_BATCH_RECORDS", 1)
    reason = "it has 2 records, more than the 1 that are read"
    found = page(batches(*[2] * 12, 1), offset=1)
    assert found["problems"] == [
        f"the batch at offset 0 is skipped from offset 1 on: {reason}",
        *(f"the batch at offset {2 * number} is skipped: {reason}" for number in range(1, 10)),
        "further skipped batches: 2",
    ]
    assert ([row["offset"] for row in found["rows"]], found["next_offset"]) == ([24], 25)


def test_without_a_skipped_batch_there_is_no_problem() -> None:
    assert page(batches(2))["problems"] == []
