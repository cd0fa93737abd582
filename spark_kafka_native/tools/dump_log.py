"""``kafka-dump-log.sh``: print the batches and records of segment files, and the entries of their indexes."""

import argparse
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

from broker_embedded.log.batches import batch_bytes, batch_headers, batch_records
from broker_embedded.platform import File, RealFile
from spark_kafka_native.records.batch import MAGIC, BatchHeader, UnreadableBatch, increment_sequence
from spark_kafka_native.records.control import ControlRecord, ControlType, decode_control
from spark_kafka_native.records.formats import check_any_crc
from spark_kafka_native.records.legacy import Message
from spark_kafka_native.records.record import read_varint
from spark_kafka_native.tools.connection import ToolError, ToolParser, complain, refuse, say

_TOOL: Final = "kafka-dump-log"
_TIMESTAMP_TYPES: Final = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ENTRIES_AT_ONCE: Final = 4096


def main(arguments: Sequence[str]) -> int:
    """Print files; the exit status. 0: done. 1: a file cannot be read. 2: a bad option."""
    parser = ToolParser(_TOOL, "Print the batches of segment files, and the entries of their indexes.")
    parser.add_argument("--files", required=True, metavar="FILE,FILE", help="files of a partition's directory")
    parser.add_argument("--print-data-log", action="store_true", help="print the records, too, with keys and values")
    parser.add_argument("--deep-iteration", action="store_true", help="print the records, too")
    parser.add_argument("--skip-record-metadata", action="store_true", help="print only keys and values of records")
    options = parser.parse_args(arguments)
    try:
        for path in filter(None, options.files.split(",")):
            say(f"Dumping {path}")
            dump = _DUMPS.get(Path(path).suffix)
            if dump is None:
                complain(f"Ignoring unknown file {path}")
            else:
                dump(Path(path), options)
    except (ToolError, OSError) as error:
        return refuse(_TOOL, error)
    return 0


def _dump_log(path: Path, options: argparse.Namespace) -> None:
    say(f"Log starting offset: {_base_offset(path)}")
    file = RealFile(str(path), os.O_RDONLY)
    end = file.size()
    valid = 0
    try:
        for position, header in batch_headers(file, 0, end):
            _print_batch(file, position, header)
            if options.print_data_log or options.deep_iteration:
                _print_records(file, position, header, options)
            valid = position + header.size_in_bytes
    except UnreadableBatch as error:
        say(f"Found {end - valid} invalid bytes at the end of {path.name}")
        complain(f"{_TOOL}: {error}")


def _print_batch(file: File, position: int, header: BatchHeader) -> None:
    try:
        check_any_crc(batch_bytes(file, position, header), 0, header)
        valid = "true"
    except UnreadableBatch:
        valid = "false"
    if header.magic == MAGIC:
        horizon = header.delete_horizon_ms
        first = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.partition_leader_epoch} "
            f"isTransactional: {_flag(header.is_transactional)} isControl: {_flag(header.is_control)} "
            f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
        )
    else:
        first = f"offset: {header.last_offset}"
    say(
        f"{first} position: {position} {_time(header, header.max_timestamp)} size: {header.size_in_bytes} "
        f"magic: {header.magic} compresscodec: {header.compression.label} crc: {header.crc} isvalid: {valid}"
    )


def _print_records(file: File, position: int, header: BatchHeader, options: argparse.Namespace) -> None:
    control = decode_control(batch_bytes(file, position, header), 0, header) if header.is_control else None
    for record in batch_records(file, position, header):
        parts = [] if options.skip_record_metadata else [_metadata(header, record)]
        if control is not None:
            parts += _control(control)
        elif options.print_data_log:
            named = (("key", record.key), ("payload", record.value))
            parts += [f"{name}: {_text(data)}" for name, data in named if data is not None]
        say(" ".join(["|", *parts]))


def _metadata(header: BatchHeader, record: Message) -> str:
    key_size, value_size = (-1 if data is None else len(data) for data in (record.key, record.value))
    time = _time(header, record.timestamp)
    text = f"offset: {record.offset} {time} keySize: {key_size} valueSize: {value_size}"
    if header.magic != MAGIC:
        return text
    sequence = header.base_sequence
    if header.base_sequence >= 0:
        sequence = increment_sequence(header.base_sequence, record.offset - header.base_offset)
    return f"{text} sequence: {sequence} headerKeys: [{','.join(_header_keys(record.headers))}]"


def _control(control: ControlRecord) -> list[str]:
    if control.type in {ControlType.ABORT, ControlType.COMMIT}:
        return [f"endTxnMarker: {control.type.name} coordinatorEpoch: {control.coordinator_epoch}"]
    return [f"controlType: {control.type.name}"]


def _header_keys(headers: bytes) -> Iterator[str]:
    """The keys of headers, which decoding has checked already. Raises BadRecord."""
    view, end = memoryview(headers), len(headers)
    count, position = read_varint(view, 0, end, 0)
    for _ in range(count):
        size, position = read_varint(view, position, end, 0)
        yield _text(bytes(view[position : position + size]))
        size, position = read_varint(view, position + size, end, 0)
        position += max(0, size)


def _dump_index(path: Path, _: argparse.Namespace) -> None:
    base_offset, found = _base_offset(path), False
    for relative, position in takewhile(any, _entries(path, _OFFSET_ENTRY)):  # zeroes follow the last entry
        found = True
        say(f"offset: {base_offset + relative} position: {position}")
    if not found:
        say(f"{path} is empty.")


def _dump_time_index(path: Path, _: argparse.Namespace) -> None:
    base_offset = _base_offset(path)
    for timestamp, relative in takewhile(any, _entries(path, _TIME_ENTRY)):
        say(f"timestamp: {timestamp} offset: {base_offset + relative}")


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    """The whole entries of an index file."""
    with path.open("rb") as file:
        while block := file.read(entry.size * _ENTRIES_AT_ONCE):
            yield from entry.iter_unpack(block[: len(block) - len(block) % entry.size])


def _base_offset(path: Path) -> int:
    try:
        return int(path.name.partition(".")[0])
    except ValueError:
        raise ToolError(f"--files: {path.name} does not begin with an offset") from None


def _time(header: BatchHeader, timestamp: int) -> str:
    return f"{_TIMESTAMP_TYPES[header.timestamp_type]}: {timestamp}"


def _flag(value: bool) -> str:
    return str(value).lower()


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


_DUMPS: Final[Mapping[str, Callable[[Path, argparse.Namespace], None]]] = {
    ".log": _dump_log,
    ".index": _dump_index,
    ".timeindex": _dump_time_index,
}
