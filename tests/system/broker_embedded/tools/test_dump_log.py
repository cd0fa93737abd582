import json
import re
import struct
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from tests.support.clients.topics import Topics
from tests.support.tools import Tool
from tests.system.broker_embedded.tools.conftest import dumped_files, written_segment

LOG = "t-0/00000000000000000000.log"


def test_a_file_that_does_not_exist_is_named(tool: Tool, tmp_path: Path) -> None:
    for name in ("nope.log", "00000000000000000000.index", "nope.txt"):
        path = str(tmp_path / name)
        response = tool("kafka-dump-log", "--files", path)
        assert (response.status, response.err) == (1, f"kafka-dump-log: --files: {path} does not exist\n")


def test_batches_and_records(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path)
    dumped = tool("kafka-dump-log", "--files", str(log), "--print-data-log")
    first, start, *lines = dumped.lines
    assert (dumped.status, first, start) == (0, f"Dumping {log}", "Log starting offset: 0")
    batches, records = lines[::2], lines[1::2]
    assert [line.split(" count: ")[0] for line in batches] == [
        "baseOffset: 0 lastOffset: 0",
        "baseOffset: 1 lastOffset: 1",
    ]
    assert all(line.endswith("isvalid: true") for line in batches)
    assert [line.split(" headerKeys: ")[1] for line in records] == ["[] key: k1 payload: v1", "[] key: k2 payload: v2"]
    assert tool("kafka-dump-log", "--files", str(log)).lines == [first, start, *batches]
    deep = tool("kafka-dump-log", "--files", str(log), "--deep-iteration").lines
    assert deep == [first, start, *(line.split(" key: ")[0] for line in lines)]
    short = tool("kafka-dump-log", "--files", str(log), "--print-data-log", "--skip-record-metadata").lines
    assert short[3::2] == ["| key: k1 payload: v1", "| key: k2 payload: v2"]


def test_json_has_an_object_for_each_batch_record_and_entry(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path)
    files = ",".join(str(log.with_suffix(suffix)) for suffix in (".log", ".index", ".timeindex"))
    dumped = tool("kafka-dump-log", "--files", files, "--print-data-log", "--json")
    assert (dumped.status, dumped.err) == (0, "")
    batch, record, *more = [json.loads(line) for line in dumped.lines]
    assert {
        "file": str(log),
        "type": "batch",
        "baseOffset": 0,
        "lastOffset": 0,
        "isvalid": True,
    }.items() <= batch.items()
    assert (batch["deleteHorizonMs"], batch["isControl"], batch["compresscodec"]) == (None, False, "none")
    expected = {"file": str(log), "type": "record", "offset": 0, "headerKeys": [], "key": "k1", "payload": "v1"}
    assert expected.items() <= record.items()
    assert [each["type"] for each in more if each["file"] == str(log)] == ["batch", "record"]
    assert all({"timestamp", "offset"} < each.keys() for each in more if each["file"].endswith(".timeindex"))


def test_json_has_bytes_that_are_no_text_in_base64(tool: Tool, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data", topics={"t": 1}) as broker, Topics(broker.bootstrap_servers) as topics:
        topics.write("t", [b"\xfe", None], keys=[None, b"\xff"])
    log = tmp_path / "data" / "t-0" / "00000000000000000000.log"
    dumped = tool("kafka-dump-log", "--files", str(log), "--print-data-log", "--json")
    records = [each for each in map(json.loads, dumped.lines) if each["type"] == "record"]
    assert [(each.get("key"), each.get("keyBase64")) for each in records] == [(None, None), (None, "/w==")]
    assert [(each.get("payload"), each.get("payloadBase64")) for each in records] == [(None, "/g=="), (None, None)]


def test_messages_of_format_v1(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path, as_version="2.8", **{"message.format.version": "0.10.2"})
    lines = tool("kafka-dump-log", "--files", str(log), "--print-data-log").lines
    assert lines[2].startswith("offset: 0 position: 0 CreateTime: ")
    assert " magic: 1 compresscodec: none crc: " in lines[2]
    assert lines[2].endswith("isvalid: true")
    assert lines[3].startswith("| offset: 0 CreateTime: ")
    crc = lines[2].split(" crc: ")[1].split()[0]
    assert lines[3].endswith(f" keySize: 2 valueSize: 2 isValid: true crc: {crc} key: k1 payload: v1")


def test_a_batch_with_a_wrong_crc_and_one_that_is_cut_off(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path)
    raw = bytearray(log.read_bytes())
    raw[len(raw) // 2 - 2] ^= 1  # within the value of the first record
    log.write_bytes(raw[:-3])
    dumped = tool("kafka-dump-log", "--files", str(log))
    batch, end = dumped.lines[2:]
    assert batch.endswith("isvalid: false")
    assert end == f"Found {len(raw) // 2 - 3} invalid bytes at the end of {log.name}"
    crc, cut_off = dumped.err.splitlines()
    assert (dumped.status, str(log) in crc, str(log) in cut_off) == (1, True, True)


def test_after_a_wrong_crc_the_next_batches_are_printed(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path)
    raw = bytearray(log.read_bytes())
    raw[len(raw) // 2 - 2] ^= 1
    log.write_bytes(raw)
    dumped = tool("kafka-dump-log", "--files", str(log))
    assert [line.rpartition(" ")[2] for line in dumped.lines[2:]] == ["false", "true"]
    assert (dumped.status, len(dumped.err.splitlines())) == (1, 1)


def test_a_last_batch_that_is_cut_off_is_reported_with_status_0(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path)
    log.write_bytes(log.read_bytes()[:-3])
    dumped = tool("kafka-dump-log", "--files", str(log))
    assert (dumped.status, str(log) in dumped.err) == (0, True)


def test_a_file_that_is_not_a_segment_fails(tool: Tool, tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(bytes(range(50, 150)))
    dumped = tool("kafka-dump-log", "--files", str(log))
    assert (dumped.status, dumped.lines[-1]) == (1, f"Found 100 invalid bytes at the end of {log.name}")
    assert dumped.err.startswith("kafka-dump-log: ")
    assert str(log) in dumped.err


def test_a_record_whose_headers_are_cut_off(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path)
    raw = bytearray(log.read_bytes())
    raw[-1] = 2  # the second record has one header, and ends
    log.write_bytes(raw)
    dumped = tool("kafka-dump-log", "--files", str(log), "--print-data-log")
    assert dumped.lines[-1] == f"Found {len(raw) // 2} invalid bytes at the end of {log.name}"
    place = f"file {log}, position {len(raw) // 2}, base offset 1"
    crc, record = dumped.err.splitlines()
    assert (dumped.status, crc.startswith("kafka-dump-log: CRC"), crc.endswith(f" ({place})")) == (1, True, True)
    assert record == f"kafka-dump-log: bad record: a varint is cut off ({place}, record 0)"


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("leader-epoch-checkpoint", 0, "Ignoring unknown file"),
        ("00000000000000000100-0000000001.checkpoint", 0, "snapshots of __cluster_metadata cannot be read here"),
        ("00000000000000000000.log", 1, "00000000000000000000.log"),
        ("first.log", 2, "--files: first.log does not begin with an offset"),
    ],
)
def test_files_that_cannot_be_dumped(tool: Tool, tmp_path: Path, name: str, status: int, words: str) -> None:
    if status != 1:
        (tmp_path / name).touch()
    dumped = tool("kafka-dump-log", "--files", str(tmp_path / name))
    assert (dumped.status, words in dumped.err) == (status, True)


def test_the_first_bytes_of_a_segment(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path)
    half = log.stat().st_size // 2
    for limit, batches in ((half - 1, 0), (half, 1), (half + 1, 1), (2 * half, 2)):
        dumped = tool("kafka-dump-log", "--files", str(log), "--max-bytes", str(limit))
        assert (dumped.status, dumped.err, len(dumped.lines) - 2) == (0, "", batches)


def test_control_records_go_with_the_metadata(tool: Tool, coordinated: Path) -> None:
    lines = dumped_files(tool, coordinated, "t-0/*.log", "--print-data-log")
    assert [re.sub(r".* (endTxnMarker)", r"\1", line) for line in lines if "endTxnMarker" in line] == [
        "endTxnMarker: ABORT coordinatorEpoch: 0",
        "endTxnMarker: COMMIT coordinatorEpoch: 0",
    ]
    short = dumped_files(tool, coordinated, "t-0/*.log", "--print-data-log", "--skip-record-metadata")
    assert [line for line in short[1:] if not line.startswith("baseOffset")] == [
        "| payload: a",
        "| payload: b",
        "",
        "| payload: c",
        "",
        "| payload: d",
    ]


def test_records_of_groups(tool: Tool, coordinated: Path) -> None:
    options = ("--offsets-decoder", "--skip-record-metadata")
    lines = dumped_files(tool, coordinated, "__consumer_offsets-0/*.log", *options)
    (offset,) = (line for line in lines if '"topic":"t"' in line)
    assert offset.startswith(
        '| key: {"type":"1","data":{"group":"g","topic":"t","partition":0}} payload: {"version":"4","data":{"offset":5,'
    )


def test_records_of_transactions(tool: Tool, coordinated: Path) -> None:
    lines = dumped_files(tool, coordinated, "__transaction_state-*/*.log", "--transaction-log-decoder")
    states = [line for line in lines if ' key: {"type":"0","data":{"transactionalId":"id"}} payload: ' in line]
    assert len(states) > 5
    assert '"transactionPartitions":[{"topic":"t","partitionIds":[0]}]' in states[-1]


def test_records_that_no_coordinator_wrote(tool: Tool, coordinated: Path) -> None:
    files = ("--files", str(coordinated / LOG))
    dumped = tool("kafka-dump-log", *files, "--offsets-decoder")
    assert dumped.status == 1
    assert "the record at offset 0 has no key, so that the decoder cannot read it" in dumped.err


def test_offsets_that_do_not_follow_each_other(tool: Tool, tmp_path: Path) -> None:
    log = written_segment(tool, tmp_path)
    raw = bytearray(log.read_bytes())
    struct.pack_into(">q", raw, len(raw) // 2, 7)  # the second batch's offset is not under its CRC
    log.write_bytes(raw)
    dumped = tool("kafka-dump-log", "--files", str(log), "--deep-iteration")
    assert dumped.err.splitlines() == [f"Non-consecutive offsets in {log}", "  0 is followed by 7"]
    assert tool("kafka-dump-log", "--files", str(log)).err == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--cluster-metadata-decoder",),
            "--cluster-metadata-decoder is not supported: the bundled broker never",
        ),
        (("--share-group-state-decoder",), "it has no share groups"),
        (("--remote-log-metadata-decoder",), "it has no tiered storage"),
        (("--key-decoder-class", "my.Decoder"), "--key-decoder-class: Java classes cannot be loaded, so"),
        (("--max-bytes", "-1"), "--max-bytes: -1 is negative"),
        (("--max-message-size", "-1"), "--max-message-size: -1 is negative"),
    ],
)
def test_options_that_cannot_be_honoured(tool: Tool, options: tuple[str, ...], words: str) -> None:
    dumped = tool("kafka-dump-log", "--files", "00000000000000000000.log", *options)
    assert (dumped.status, dumped.out, words in dumped.err) == (2, "", True)
