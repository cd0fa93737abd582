import re
import struct
from pathlib import Path

import pytest

from broker_embedded._log.append.producer_snapshot import encode
from broker_embedded._log.append.producer_state import ProducerEntry
from tests.support.tools import Tool
from tests.system.broker_embedded.tools.conftest import dumped_files, written_segment


def test_entries_of_indexes(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path, **{"index.interval.bytes": "1"})
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    with index.open("ab") as file:
        file.write(bytes(16))  # a broker that was killed leaves it so
    size = log.stat().st_size // 2
    dumped = tool("kafka-dump-log", "--files", f"{index},{times}").lines
    assert dumped[:3] == [f"Dumping {index}", f"offset: 1 position: {size}", f"Dumping {times}"]
    assert [line.split(" offset: ")[1] for line in dumped[3:]] == ["1"]
    index.write_bytes(b"")
    assert tool("kafka-dump-log", "--files", str(index)).lines[1:] == [f"{index} is empty."]


def test_zeroes_of_a_preallocated_index_end_it(tool: Tool, tmp_path: Path) -> None:
    index = written_segment(tool, tmp_path, **{"index.interval.bytes": "1"}).with_suffix(".index")
    index.write_bytes(bytes(24))
    dumped = tool("kafka-dump-log", "--files", str(index))
    assert (dumped.status, dumped.err) == (0, "")
    assert dumped.lines[1:] == ["offset: 0 position: 0"]


@pytest.fixture
def indexed(tool: Tool, tmp_path: Path) -> tuple[Path, Path]:
    """The ``.index`` and the ``.timeindex`` of a segment of two batches; both point to the second."""
    log = written_segment(tool, tmp_path, **{"index.interval.bytes": "1"})
    return log.with_suffix(".index"), log.with_suffix(".timeindex")


def test_indexes_that_agree_with_their_log(tool: Tool, indexed: tuple[Path, Path]) -> None:
    index, times = indexed
    files = ("--files", f"{index},{times}")
    verified = tool("kafka-dump-log", *files, "--verify-index-only")
    assert (verified.status, verified.err) == (0, "")
    assert verified.lines == [f"Dumping {index}", f"Dumping {times}"]
    sane = tool("kafka-dump-log", *files, "--index-sanity-check")
    assert (sane.status, sane.err) == (0, "")
    assert sane.lines[1::2] == [f"{index} passed sanity check.", f"{times} passed sanity check."]


def test_indexes_that_contradict_their_log(tool: Tool, indexed: tuple[Path, Path]) -> None:
    index, times = indexed
    ((_, position),) = struct.iter_unpack(">ii", index.read_bytes())
    ((timestamp, _),) = struct.iter_unpack(">qi", times.read_bytes())
    index.write_bytes(struct.pack(">iiii", 5, position, 6, 0))
    entries = ((timestamp + 1, 0), (timestamp, 1), (timestamp, 1), (timestamp + 2, 9))
    times.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    dumped = tool("kafka-dump-log", "--files", f"{index},{times}", "--verify-index-only")
    assert dumped.status == 0
    first = int(re.findall(rf"Index timestamp: {timestamp + 1}, log timestamp: (\d+)", dumped.err)[0])
    assert dumped.err.splitlines() == [
        f"Mismatches in :{index}",
        "  Index offset: 6, log offset: 0",
        "  Index offset: 5, log offset: 1",
        f"Found timestamp mismatch in :{times}",
        f"  Index timestamp: {timestamp + 1}, log timestamp: {first}",
        f"Found out of order timestamp in :{times}",
        f"  Index timestamp: {timestamp}, Previously indexed timestamp: {timestamp + 1}",
        f"  Index timestamp: {timestamp}, Previously indexed timestamp: {timestamp}",
        f"The following indexed offsets are not found in :{times}",
        "Indexed offset: 9, found log offset: -1",
    ]


def test_an_index_that_a_start_would_rebuild_fails_the_sanity_check(tool: Tool, indexed: tuple[Path, Path]) -> None:
    for path, data, reason in (
        (indexed[0], struct.pack(">ii", 1, 1_000_000), "is outside a log of "),
        (indexed[0], bytes(9), "9 bytes are not a multiple of 8"),
        (indexed[1], struct.pack(">qiqi", 5, 0, 4, 1), "does not follow the first"),
    ):
        path.write_bytes(data)
        checked = tool("kafka-dump-log", "--files", str(path), "--index-sanity-check")
        assert (checked.status, checked.lines[1:]) == (1, [])
        assert f"{path}: " in checked.err
        assert reason in checked.err


def test_an_index_that_points_outside_its_log(tool: Tool, indexed: tuple[Path, Path]) -> None:
    index, _ = indexed
    size = index.with_suffix(".log").stat().st_size
    files = ("--files", str(index))
    small = tool("kafka-dump-log", *files, "--max-message-size", "70")
    assert (small.status, "no batch of at most --max-message-size 70 bytes" in small.err) == (1, True)
    index.write_bytes(struct.pack(">ii", 1, size))
    outside = tool("kafka-dump-log", *files)
    assert outside.status == 1
    assert f"{index}: position {size} is not in {index.with_suffix('.log')}, which has {size} bytes" in outside.err
    index.with_suffix(".log").unlink()
    missing = tool("kafka-dump-log", *files)
    assert (missing.status, str(index.with_suffix(".log")) in missing.err) == (1, True)


def test_aborted_transactions_and_producers(tool: Tool, coordinated: Path) -> None:
    (aborted,) = dumped_files(tool, coordinated, "t-0/*.txnindex")
    match = re.fullmatch(r"version: 0 producerId: (\d+) firstOffset: 0 lastOffset: 2 lastStableOffset: 3", aborted)
    assert match
    entries = dumped_files(tool, coordinated, "t-0/*.snapshot")
    assert all(f"producerId: {match[1]} producerEpoch: 0 coordinatorEpoch: 0 " in entry for entry in entries)
    assert "currentTxnFirstOffset: OptionalLong[5] lastTimestamp: " in entries[-1]
    last = re.search(r" firstSequence: 3 lastSequence: 3 lastOffset: 5 offsetDelta: 0 timestamp: \d+$", entries[-1])
    assert last


def test_a_corrupt_snapshot_is_reported_and_the_next_file_dumped(tool: Tool, tmp_path: Path) -> None:
    first, second = (tmp_path / f"{number:020d}.snapshot" for number in range(2))
    first.write_bytes(b"\0\1")
    second.write_bytes(encode([ProducerEntry(producer_id=5, epoch=1, seen_ms=9)]))
    dumped = tool("kafka-dump-log", "--files", f"{first},{second}")
    assert (dumped.status, dumped.err) == (0, f"{first}: 2 bytes are too few\n")
    assert dumped.lines[2:] == [
        "producerId: 5 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 9"
    ]
    aborts = tmp_path / f"{0:020d}.txnindex"
    aborts.write_bytes(struct.pack(">hqqqq", 1, 5, 0, 2, 3))
    unknown = tool("kafka-dump-log", "--files", str(aborts))
    assert (unknown.status, f"{aborts}: version 1 of an entry is not known" in unknown.err) == (1, True)
