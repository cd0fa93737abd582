"""Records that clients can write, and that a page must get past without harm to the broker."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker_embedded._server.status import record_reader, worker_process
from broker_embedded._server.status.worker_process import WorkerFailed, WorkerLate, WorkerLost, WorkerProcess
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._records.batch import CompressionType
from spark_kafka_native._records.conversion import write_batch
from spark_kafka_native._records.record import LogRecord, encode_headers, varint
from tests.support.broker.driver import batch, produce_request
from tests.support.broker.status_page import SETTINGS, Page
from tests.support.requests.raw_client import RawClient
from tests.support.waiting import eventually

MAX_BYTES = 40_000_000


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    settings = SETTINGS | {"message.max.bytes": MAX_BYTES}
    with EmbeddedBroker(tmp_path, topics={"t": 1, "other": 1}, settings=settings) as broker:
        yield Page(broker)


def write(page: Page, records: bytes | bytearray) -> None:
    """Write a batch as it is."""
    with RawClient(page.broker.bootstrap_servers) as client:
        response = client.ask(produce_request("t", records), 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def compressed(*records: LogRecord) -> bytearray:
    return write_batch(records, base_offset=0, compression=CompressionType.ZSTD)


def record(offset: int, value: bytes, headers: bytes = b"\0") -> LogRecord:
    return LogRecord(offset, 1_700_000_000_000, b"k", value, headers)


def values(answer: dict[str, Any]) -> list[str]:
    return [row["value"]["text"] for row in answer["rows"]]


def test_millions_of_headers_are_counted_and_not_read(page: Page) -> None:
    count = 10_000_000
    headers = varint(count) + b"\0\0" * count  # of no name and no value
    write(page, compressed(record(0, b"bomb", headers), record(1, b"after")))
    answer = page.row("records", topic="t")
    assert values(answer) == ["bomb", "after"]
    assert answer["rows"][0]["header_count"] == count
    assert len(answer["rows"][0]["headers"]) == 100


def test_a_batch_that_decompresses_to_too_much_is_skipped_with_its_reason(page: Page) -> None:
    write(page, compressed(record(0, bytes(100_000_000))))
    write(page, batch(b"after"))
    answer = page.row("records", topic="t", offset=0)
    assert values(answer) == ["after"]
    (problem,) = answer["problems"]
    reason = "zstd payload decompresses to more than 67108864 bytes (position 0, base offset 0)"
    assert problem == f"the batch at offset 0 is skipped: {reason}"


def test_a_batch_of_too_many_bytes_is_skipped_without_reading_it(page: Page) -> None:
    write(page, write_batch([record(0, os.urandom(17_000_000))], base_offset=0))
    write(page, batch(b"after"))
    answer = page.row("records", topic="t", offset=0)
    assert (answer["rows"], answer["next_offset"]) == ([], 1)
    reason = "it is larger than the 16777216 bytes that are read"
    assert answer["problems"] == [f"the batch at offset 0 is skipped: {reason}"]
    assert values(page.row("records", topic="t", offset=1)) == ["after"]


def test_a_record_with_malformed_headers_is_shown_with_the_problem(page: Page) -> None:
    headers = encode_headers([(b"good", b"1")])
    malformed = varint(2) + headers[1:] + b"\xff"
    write(page, compressed(record(0, b"bad", malformed), record(1, b"good", headers)))
    bad, good = page.row("records", topic="t")["rows"]
    assert [each["key"]["text"] for each in bad["headers"]] == ["good"]
    assert bad["header_problem"].startswith("bad record: ")
    assert (good["header_count"], good["header_problem"]) == (1, None)


def test_a_response_is_bounded_and_continues(page: Page) -> None:
    write(page, compressed(*(record(number, b'"' * 1_000_000) for number in range(20))))
    found, offset = 0, 0
    while offset < 20:
        answer = page.ask("api/records", {"topic": "t", "offset": offset, "bytes": 1_000_000})
        assert answer.status == 200
        assert len(answer.body) < 8_000_000
        found += len(answer.row["rows"])
        offset = answer.row["next_offset"]
    assert found == 20


def test_a_batch_that_takes_too_much_processor_time_is_skipped(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "CPU_S", 0.02)
    write(page, compressed(*(record(number, b"") for number in range(100_000))))
    write(page, batch(b"after"))
    answer = page.row("records", topic="t", offset=99_999)
    assert (answer["rows"], answer["next_offset"]) == ([], 100_000)
    reason = "it cannot be read within 0.02 s of processor time"
    assert answer["problems"] == [f"the batch at offset 0 is skipped from offset 99999 on: {reason}"]
    monkeypatch.undo()
    assert values(page.row("records", topic="t", offset=100_000)) == ["after"]


def test_a_batch_that_takes_too_much_time_with_avro_is_shown_without(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(self: WorkerProcess, request: bytes, stored: bytes, deadline: float) -> bytes:
        if json.loads(request)["avro_schema"]:
            raise WorkerFailed("it is slow")
        return whole(self, request, stored, deadline)

    whole = WorkerProcess.ask
    monkeypatch.setattr(WorkerProcess, "ask", ask)
    write(page, batch(b"1"))
    write(page, batch(b"2"))
    answer = page.ask("api/records", method="POST", body={"topic": "t", "offset": 0, "avro_schema": '"long"'}).row
    assert (values(answer), answer["next_offset"]) == (["1"], 1)
    assert answer["problems"] == ["the batch at offset 0 is shown without the Avro schema: it is slow"]


def test_a_machine_that_is_too_busy_skips_nothing(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    write(page, batch(b"1"))
    page.row("records", topic="t")
    (worker,) = workers()
    monkeypatch.setattr(record_reader, "_PAGE_S", 0.5)
    worker.suspend()
    answer = page.ask("api/records", {"topic": "t"})
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert answer.row["problem"] == "reading takes too long, because this machine is busy; try again"
    monkeypatch.undo()
    assert values(page.row("records", topic="t")) == ["1"]


def test_a_batch_that_is_late_twice_is_skipped(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a batch that exhausts the worker, on a machine that leaves it no processor, does not end a search."""

    def ask(self: WorkerProcess, request: bytes, stored: bytes, deadline: float) -> bytes:
        asked.append(len(stored))
        if b"late" in stored or (b"slow" in stored and json.loads(request)["avro_schema"]):
            raise WorkerLate
        return whole(self, request, stored, deadline)

    def search(offset: int) -> dict[str, Any]:
        fields = {"topic": "t", "offset": offset, "avro_schema": '"bytes"'}
        first, second = (page.ask("api/records", method="POST", body=fields) for _ in range(2))
        assert (first.status, second.status) == (503, 200), "the first request may be repeated"
        return second.row

    asked: list[int] = []
    whole = WorkerProcess.ask
    monkeypatch.setattr(WorkerProcess, "ask", ask)
    sizes = [len(batch(value)) for value in (b"late", b"1", b"slow")]
    for value in (b"late", b"1", b"slow"):
        write(page, batch(value))
    reason = "it is not read within 600 s, because this machine is busy"
    for _ in range(2):  # a request that was skipped is not late any more
        answer = search(0)
        assert asked == [sum(sizes), sizes[0]], "the second request has the first batch alone"
        assert (answer["rows"], answer["next_offset"]) == ([], 1)
        assert answer["problems"] == [f"the batch at offset 0 is skipped: {reason}"]
        asked.clear()
    answer = search(1)
    assert (values(answer), answer["next_offset"]) == (["1"], 2)
    answer = search(2)
    assert (values(answer), answer["next_offset"]) == (["slow"], 3)
    assert answer["problems"] == [f"the batch at offset 2 is shown without the Avro schema: {reason}"]


def test_a_worker_whose_start_is_late_after_a_failure_counts_as_late(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        monkeypatch.setattr(WorkerProcess, "wait_until_ready", late)
        raise WorkerLost("killed")

    def late(*_: object) -> None:
        raise WorkerLate

    write(page, batch(b"1"))
    monkeypatch.setattr(WorkerProcess, "ask", fail)
    statuses = [page.ask("api/records", {"topic": "t", "offset": 0}).status for _ in range(2)]
    assert statuses == [503, 200]


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_killed_worker_is_started_again(page: Page, monkeypatch: pytest.MonkeyPatch, *, is_noticed: bool) -> None:
    write(page, batch(b"1"))
    assert values(page.row("records", topic="t")) == ["1"]
    if not is_noticed:
        monkeypatch.setattr(WorkerProcess, "has_ended", False)
    (worker,) = workers()
    worker.kill()
    eventually(worker.status, psutil.STATUS_ZOMBIE)
    answer = page.row("records", topic="t")
    assert (values(answer), answer["problems"]) == (["1"], [])


def test_a_batch_whose_worker_is_killed_again_and_again_is_skipped(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(self: WorkerProcess, request: bytes, stored: bytes, deadline: float) -> bytes:
        if len(stored) > len(batch(b"1")):
            self._process.kill()
        return whole(self, request, stored, deadline)

    whole = WorkerProcess.ask
    monkeypatch.setattr(WorkerProcess, "ask", ask)
    write(page, batch(b"1"))
    write(page, batch(b"longer"))
    assert values(page.row("records", topic="t", offset=0)) == ["1"]
    answer = page.row("records", topic="t", offset=1)
    assert (answer["rows"], answer["next_offset"]) == ([], 2)
    assert answer["problems"] == ["the batch at offset 1 is skipped: its process ended with status -9"]


def test_a_batch_that_cannot_be_read_does_not_cost_an_attempt_for_each_one_before_it(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(self: WorkerProcess, request: bytes, stored: bytes, deadline: float) -> bytes:
        asked.append(len(stored))
        if b"hostile" in stored:
            raise WorkerFailed("it is hostile")
        return whole(self, request, stored, deadline)

    asked: list[int] = []
    whole = WorkerProcess.ask
    monkeypatch.setattr(WorkerProcess, "ask", ask)
    with RawClient(page.broker.bootstrap_servers) as client:
        for value in [b"before"] * 500 + [b"hostile", b"after"]:
            client.ask(produce_request("t", batch(value)), 9)
    offset, problems = 0, []
    while offset < 502:
        answer = page.row("records", topic="t", key="another", offset=offset)
        offset = answer["next_offset"]
        problems += answer["problems"]
    assert problems == ["the batch at offset 500 is skipped: it is hostile"]
    assert len(asked) < 60


@pytest.mark.parametrize(
    ("program", "reason"),
    [("/bin/false", "it ended with status 1"), ("/bin/echo", "it printed b'-P -m '"), (None, "expected str")],
)
def test_a_worker_that_does_not_start_skips_nothing(
    page: Page, monkeypatch: pytest.MonkeyPatch, program: str | None, reason: str
) -> None:
    write(page, batch(b"1"))
    monkeypatch.setattr(sys, "executable", program)
    status, problem = page.problem("records", topic="t")
    assert status == 503
    assert problem.startswith(f"the process that reads records does not start: {reason}")


def test_a_worker_ends_some_time_after_the_last_request(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    write(page, batch(b"1"))
    page.row("records", topic="t")
    (worker,) = workers()
    monkeypatch.setattr(record_reader, "_IDLE_S", 0.01)
    page.row("records", topic="t")
    eventually(worker.is_running, False)
    assert values(page.row("records", topic="t")) == ["1"]


def test_the_kernel_ends_a_worker_before_other_processes(page: Page) -> None:
    write(page, batch(b"1"))
    page.row("records", topic="t")
    (worker,) = workers()
    assert worker.nice() == 10
    assert int(Path(f"/proc/{worker.pid}/oom_score_adj").read_text()) == 1000


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_no_worker_is_left(page: Page, end: str) -> None:
    write(page, batch(b"1"))
    page.row("records", topic="t")
    (worker,) = workers()
    getattr(page.broker, end)()
    eventually(worker.is_running, False)


def workers() -> list[psutil.Process]:
    """The processes that read records for brokers of this process."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if "broker_embedded._server.status.worker" in child.cmdline()]
