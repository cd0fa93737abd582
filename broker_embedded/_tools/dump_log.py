"""``kafka-dump-log.sh``: print the batches and records of segments, and the entries of the files beside them."""

import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from broker_embedded._log.batches import batch_bytes, batch_headers, batch_records
from broker_embedded._platform.platform import File, RealFile
from broker_embedded._tools.dump_indexes import (
    IndexFindings,
    IndexOptions,
    base_offset,
    dump_offset_index,
    dump_producer_snapshot,
    dump_time_index,
    dump_transaction_index,
)
from broker_embedded._tools.dump_output import DumpOutput
from broker_embedded._tools.record_decoders import (
    STRING_DECODER,
    Decoder,
    as_text,
    decode_group_record,
    decode_transaction_record,
    plain_decoder,
)
from spark_kafka_native._command_line.commands import Options, warn
from spark_kafka_native._command_line.output import FAILED, InvalidOption, ToolFailed, complain, json_field
from spark_kafka_native._command_line.parameters import INT32, Decorator, flag, option, together, unsupported
from spark_kafka_native._records.batch import (
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    IncompleteBatch,
    UnreadableBatch,
    increment_sequence,
)
from spark_kafka_native._records.control import ControlRecord, ControlType, decode_control
from spark_kafka_native._records.formats import check_any_crc
from spark_kafka_native._records.kafka_0_7 import Entry, read_entries
from spark_kafka_native._records.legacy import message_crcs, read_messages
from spark_kafka_native._records.record import LogRecord, read_headers
from spark_kafka_native._tools.options import command

_TIMESTAMP_TYPES: Final = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
_MAX_MESSAGE_SIZE: Final = 5 * 1024 * 1024
_NEVER_WRITTEN: Final = {
    "--cluster-metadata-decoder": "topics are in topics.json and settings in configs.json, not in __cluster_metadata",
    "--share-group-state-decoder": "it has no share groups",
    "--remote-log-metadata-decoder": "it has no tiered storage",
}
"""Decoders of topics that the bundled broker never writes, and why."""
_METADATA_SNAPSHOT: Final = ".checkpoint"
_Fields = dict[str, object]


def _decoder_option(part: str) -> Decorator:
    return option(
        f"--{part}-decoder-class",
        is_flag=False,
        flag_value=STRING_DECODER,
        metavar="[CLASS]",
        help=f"print records, each {part} by this decoder of org.apache.kafka.tools.api; by default as a string",
    )


_never_written = together(
    *(
        unsupported(f"the bundled broker never writes such records, because {why}", name)
        for name, why in _NEVER_WRITTEN.items()
    )
)


@command(
    "kafka-dump-log",
    "Print the files of a partition's directory: batches of segments, and entries of the files beside them.",
    """\
examples
  {command} --files kafka-data/events-0/00000000000000000000.log --print-data-log
  {command} --files kafka-data/events-0/00000000000000000000.index --index-sanity-check""",
)
@option("--files", required=True, metavar="FILE,FILE", help="files of a partition's directory")
@flag("--print-data-log", help="print records with keys and values")
@flag("--deep-iteration", help="print records without keys and values")
@flag("--skip-record-metadata", help="print only keys and values of records, no control records")
@option("--max-bytes", type=INT32, metavar="BYTES", help="read only so many bytes of each segment")
@option(
    "--max-message-size",
    type=INT32,
    default=_MAX_MESSAGE_SIZE,
    metavar="BYTES",
    help="size of the largest batch to which an index may point",
)
@flag("--index-sanity-check", help="check indexes as the broker does at its start, and print no entries")
@flag("--verify-index-only", help="compare indexes with their segments, and print no entries")
@flag("--offsets-decoder", help="print records of __consumer_offsets as JSON")
@flag("--transaction-log-decoder", help="print records of __transaction_state as JSON")
@_decoder_option("key")
@_decoder_option("value")
@flag("--json", "as_json", help="print JSON, an object for each batch, record and entry")
@_never_written
def dump_log(**given: Any) -> int:
    """Fails if a segment has invalid batches."""
    options = Options(**given)
    dump = _Dump(options)
    try:
        for path in filter(None, options.files.split(",")):
            dump.file(path)
    finally:
        dump.findings.report()
    return FAILED if dump.has_invalid_batches else 0


class _Dump:
    """One run of the tool: its options, and what its files have shown."""

    def __init__(self, options: Options) -> None:
        """Raises InvalidOption: an option cannot be honoured."""
        for name in ("max_bytes", "max_message_size"):
            if (getattr(options, name) or 0) < 0:
                raise InvalidOption(f"--{name.replace('_', '-')}: {getattr(options, name)} is negative")
        self.findings = IndexFindings()
        self._output = DumpOutput(as_json=options.as_json)
        self.has_invalid_batches = False
        self._decode = _decoder(options)
        decoders = (options.offsets_decoder, options.transaction_log_decoder, *_decoder_classes(options))
        self._in_base64: bool = options.as_json and options.print_data_log and not any(decoders)
        """Whether keys and values that are no text are printed in base64."""
        self._deep: bool = options.deep_iteration or self._decode is not None
        self._skip_metadata: bool = options.skip_record_metadata
        self._max_bytes: int | None = options.max_bytes
        self._index_options = IndexOptions(
            sanity_only=options.index_sanity_check,
            verify_only=options.verify_index_only,
            max_message_size=options.max_message_size,
        )
        self._dumps: Mapping[str, Callable[[str], None]] = {
            ".log": self._segment,
            ".kafka": self._segment_0_7,
            ".index": lambda path: dump_offset_index(path, self._index_options, self.findings, self._output),
            ".timeindex": lambda path: dump_time_index(path, self._index_options, self.findings, self._output),
            ".txnindex": lambda path: dump_transaction_index(path, self._output),
            ".snapshot": lambda path: dump_producer_snapshot(path, self._output),
        }

    def file(self, path: str) -> None:
        """Print one file by what its name ends with. Raises OSError, InvalidOption, ToolFailed."""
        self._output.begin(path)
        if not os.path.exists(path):
            raise ToolFailed(f"--files: {path} does not exist")
        suffix = Path(path).suffix
        if suffix in self._dumps:
            self._dumps[suffix](path)
        elif suffix == _METADATA_SNAPSHOT:
            complain(f"Ignoring {path}: snapshots of __cluster_metadata cannot be read here")
        else:
            complain(f"Ignoring unknown file {path}")

    def _segment(self, path: str) -> None:
        self._output.note(f"Log starting offset: {base_offset(path)}")
        file = RealFile(path, os.O_RDONLY)
        size = file.size()
        end = size if self._max_bytes is None else min(size, self._max_bytes)
        gaps = _Gaps(path)
        valid = 0
        try:
            for position, header in batch_headers(file, 0, end):
                self._print_batch(file, position, header)
                if self._deep:
                    self._print_records(file, position, header, gaps)
                valid = position + header.size_in_bytes
        except UnreadableBatch as error:
            if end < size and isinstance(error, IncompleteBatch):
                return  # --max-bytes is within a batch
            self._output.note(f"Found {end - valid} invalid bytes at the end of {Path(path).name}")
            self._complain_of_batch(error)

    def _segment_0_7(self, path: str) -> None:
        first = base_offset(path)
        self._output.note(f"Log starting offset: {first}")
        raw = memoryview(b"")
        with open(path, "rb") as file:
            if size := os.fstat(file.fileno()).st_size:
                raw = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))[: self._max_bytes]
        valid = 0
        try:
            for entry in read_entries(raw, first):
                self._print_entry(path, valid, entry)
                valid += entry.size_bytes
        except UnreadableBatch as error:
            if len(raw) < size and isinstance(error, IncompleteBatch):
                return  # --max-bytes is within an entry
            self._output.note(f"Found {len(raw) - valid} invalid bytes at the end of {Path(path).name}")
            self._complain_of_batch(error.placed(file=path))

    def _print_entry(self, path: str, position: int, entry: Entry) -> None:
        """Print the line of an entry of Kafka 0.7, and those of its messages."""
        problem = None
        try:
            entry.check_crc()
        except UnreadableBatch as error:
            problem = error.placed(start=position, file=path)
        fields: _Fields = {
            "offset": entry.offset,
            "position": position,
            "payloadsize": len(entry.payload),
            "magic": entry.magic,
            "compresscodec": entry.codec.label,
            "crc": entry.crc,
            "isvalid": problem is None,
        }
        self._output.fields(fields, kind="batch")
        if problem is not None:
            self._complain_of_batch(problem)
        elif self._deep:
            for index, payload in enumerate(entry.messages()):
                record = LogRecord(entry.offset, NO_TIMESTAMP, None, bytes(payload))
                of_message: _Fields = {"offset": entry.offset, "index": index, "valueSize": len(payload)}
                self._print_record(record, of_message, is_control=False)

    def _complain_of_batch(self, error: UnreadableBatch) -> None:
        warn(str(error))
        # A running broker may not have written the last batch completely. Apache Kafka ends with 0 then, too.
        self.has_invalid_batches = self.has_invalid_batches or not isinstance(error, IncompleteBatch)

    def _print_batch(self, file: File, position: int, header: BatchHeader) -> None:
        """Print the line of a batch, and an error if its checksum is wrong; the next batch can be read all the same."""
        raw = batch_bytes(file, position, header)
        problem = None
        try:
            check_any_crc(raw, 0, header)
        except UnreadableBatch as error:
            problem = error.placed(start=position, file=file.path, base_offset=header.base_offset)
        self._output.fields(_batch_fields(position, header, is_valid=problem is None), kind="batch")
        if problem is not None:
            self._complain_of_batch(problem)

    def _print_records(self, file: File, position: int, header: BatchHeader, gaps: "_Gaps") -> None:
        for record, metadata in _records(file, position, header):
            gaps.note(record.offset)
            self._print_record(record, metadata, is_control=header.is_control)

    def _print_record(self, record: LogRecord, metadata: _Fields, *, is_control: bool) -> None:
        fields = {} if self._skip_metadata else metadata
        if self._in_base64 and not is_control:
            fields = {**fields, **json_field("key", record.key), **json_field("payload", record.value)}
        elif self._decode is not None and not is_control:
            named = zip(("key", "payload"), self._decode(record), strict=True)
            fields |= {name: shown for name, shown in named if shown is not None}
        self._output.fields(fields, prefix="|" if fields else "", kind="record")


def _decoder_classes(options: Options) -> tuple[str | None, str | None]:
    return options.key_decoder_class, options.value_decoder_class


def _decoder(options: Options) -> Decoder | None:
    """What prints keys and values; None: nothing does. Raises InvalidOption naming the option."""
    if options.offsets_decoder:
        return decode_group_record
    if options.transaction_log_decoder:
        return decode_transaction_record
    classes = _decoder_classes(options)
    if not options.print_data_log and classes == (None, None):
        return None
    return plain_decoder(*(name or STRING_DECODER for name in classes))


class _Gaps:
    """Reports offsets of a segment that do not follow each other, as it finds them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last: int | None = None
        self._reported = False

    def note(self, offset: int) -> None:
        if self._last is not None and offset != self._last + 1:
            if not self._reported:
                complain(f"Non-consecutive offsets in {os.path.abspath(self._path)}")
                self._reported = True
            complain(f"  {self._last} is followed by {offset}")
        self._last = offset


def _batch_fields(position: int, header: BatchHeader, *, is_valid: bool) -> _Fields:
    if header.magic == MAGIC:
        first: _Fields = {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.records_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": header.delete_horizon_ms,
        }
    else:
        first = {"offset": header.last_offset}
    return {
        **first,
        "position": position,
        _TIMESTAMP_TYPES[header.timestamp_type]: header.max_timestamp,
        "size": header.size_in_bytes,
        "magic": header.magic,
        "compresscodec": header.compression.label,
        "crc": header.crc,
        "isvalid": is_valid,
    }


def _records(file: File, position: int, header: BatchHeader) -> Iterator[tuple[LogRecord, _Fields]]:
    """The records of a batch, each with what is printed of it beside key and value. Raises CorruptBatch."""
    if header.magic != MAGIC:
        raw = batch_bytes(file, position, header)
        messages = read_messages(raw, 0, header, check_crcs=False)
        for message, (crc, valid) in zip(messages, message_crcs(raw, 0, header), strict=True):
            yield message, {**_metadata(header, message), "isValid": valid, "crc": crc}
        return
    control = decode_control(batch_bytes(file, position, header), 0, header) if header.is_control else None
    for index, record in enumerate(batch_records(file, position, header)):
        try:
            metadata = _metadata(header, record, index)
        except CorruptBatch as error:
            raise error.placed(start=position, file=file.path, base_offset=header.base_offset) from None
        yield record, metadata if control is None else metadata | _control(control)


def _metadata(header: BatchHeader, record: LogRecord, index: int = 0) -> _Fields:
    """What is printed of record ``index`` of a batch beside key and value. Raises CorruptBatch: its headers."""
    key_size, value_size = (-1 if data is None else len(data) for data in (record.key, record.value))
    fields: _Fields = {
        "offset": record.offset,
        _TIMESTAMP_TYPES[header.timestamp_type]: record.timestamp,
        "keySize": key_size,
        "valueSize": value_size,
    }
    if header.magic != MAGIC:
        return fields
    sequence = header.base_sequence
    if header.base_sequence >= 0:
        sequence = increment_sequence(header.base_sequence, record.offset - header.base_offset)
    keys = [as_text(key) for key, _ in read_headers(record.headers, index)]
    return {**fields, "sequence": sequence, "headerKeys": keys}


def _control(control: ControlRecord) -> _Fields:
    if control.type in {ControlType.ABORT, ControlType.COMMIT}:
        return {"endTxnMarker": control.type.name, "coordinatorEpoch": control.coordinator_epoch}
    return {"controlType": control.type.name}
