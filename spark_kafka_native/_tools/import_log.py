"""``pykafka import-log``: the messages in log files of Kafka 0.7 become records of topics."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.errors import RecordTooLarge
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed
from spark_kafka_native._command_line.parameters import INT64, flag, option
from spark_kafka_native._log_0_7.files import LogFile, LogFilesError, find_log_files
from spark_kafka_native._log_0_7.rows import read_rows
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.errors import UnreadableBatch
from spark_kafka_native._tools.connection import on_cluster
from spark_kafka_native._tools.options import cluster_options, command
from spark_kafka_native._tools.tables import Cell, Column, Table, json_flag

_FLUSH_BYTES: Final = 64 << 20
"""Messages of so many bytes are sent until all are waited for."""
_COLUMNS: Final = (
    Column("LOG", "log", 20, grows=True),
    Column("TOPIC", "topic", 15, grows=True),
    Column("PARTITION", "partition", 9),
    Column("FROM-OFFSET", "fromOffset", 15),
    Column("NEXT-OFFSET", "nextOffset", 15),
    Column("RECORDS", "records", 12),
)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Log:
    """The log of a partition, and what of it is in its topic."""

    files: list[LogFile]
    target: TopicPartition
    from_offset: int
    next_offset: int
    """The first offset whose message may not be acknowledged."""
    records: int = 0

    def note_done(self, rows: pa.RecordBatch) -> None:
        """These rows, the next ones of the log, are in the topic."""
        self.records += len(rows)
        self.next_offset = rows["next_offset"][-1].as_py()


@command(
    "kafka-import-log",
    "Write the messages in log files of Kafka 0.7 to topics.",
    """\
examples
  {command} --bootstrap-server localhost:9092 --log /var/kafka-0.7/logs --dry-run
  {command} --bootstrap-server localhost:9092 --log /var/kafka-0.7/logs/events-0 --topic events-of-2012""",
)
@option(
    "--log",
    "locations",
    multiple=True,
    required=True,
    metavar="PATH",
    help="a broker's log.dir, a partition's directory or a .kafka file, or its URL; the option can be repeated",
)
@option("--topic", help="write to this topic; by default to the topic in the directory's name")
@option(
    "--from-offset",
    type=INT64,
    metavar="OFFSET",
    help="with one partition: skip messages before this offset, in bytes, such as NEXT-OFFSET of an earlier run",
)
@flag("--dry-run", help="read and check all messages, and the partitions of the topics, but write nothing")
@json_flag
@cluster_options()
@on_cluster
def import_log(cluster: Cluster, options: Options) -> None:
    """Print a line for each partition, also if a later one fails."""
    try:
        logs = _logs(options)
        _check_targets(cluster, logs)
        try:
            if options.dry_run:
                for log in logs:
                    for rows in _rows_of(log):
                        log.note_done(rows)
            else:
                with Producer(cluster) as producer:
                    for log in logs:
                        _write(producer, log)
        finally:
            _table(logs).show(as_json=options.as_json)
    except (LogFilesError, UnreadableBatch, OSError) as error:
        raise ToolFailed(f"--log: {error}") from error


def _logs(options: Options) -> list[_Log]:
    """Raises InvalidOption; LogFilesError."""
    logs = []
    for partition, files in itertools.groupby(find_log_files(options.locations), key=lambda file: file.partition):
        found = list(files)
        begin = found[0].base_offset
        if options.from_offset is not None:
            begin = options.from_offset
            found = [file for file in found if file.end_offset > begin] or found[-1:]
        target = TopicPartition(options.topic or partition.topic, partition.partition)
        logs.append(_Log(files=found, target=target, from_offset=begin, next_offset=begin))
    if options.topic is not None and len({log.files[0].partition.topic for log in logs}) > 1:
        raise InvalidOption("--topic: --log has logs of several topics; import each one by itself")
    if options.from_offset is not None:
        if len(logs) != 1:
            raise InvalidOption(f"--from-offset: --log has {len(logs)} partitions, not one")
        (log,) = logs
        if not log.files[0].base_offset <= options.from_offset <= log.files[-1].end_offset:
            span = f"{log.files[0].base_offset} to {log.files[-1].end_offset}"
            raise InvalidOption(f"--from-offset: {options.from_offset} is not an offset of the log, which has {span}")
    return logs


def _check_targets(cluster: Cluster, logs: list[_Log]) -> None:
    """Raise ToolFailed if a topic lacks a partition, or KafkaError if it does not exist; nothing has been written."""
    topics = cluster.metadata({log.target.topic for log in logs}).topics
    for log in logs:
        if log.target.partition not in (found := topics[log.target.topic].partitions):
            raise ToolFailed(
                f"topic {log.target.topic} has {len(found)} partitions, and the log has partition "
                f"{log.target.partition}; create the topic with as many partitions as the log"
            )


def _write(producer: Producer, log: _Log) -> None:
    pending: list[pa.RecordBatch] = []
    pending_bytes = 0
    for rows in _rows_of(log):
        columns = [rows["value"], pa.repeat(pa.scalar(log.target.partition, pa.int32()), len(rows))]
        try:
            producer.send(log.target.topic, pa.RecordBatch.from_arrays(columns, names=["value", "partition"]))
        except RecordTooLarge as error:
            offset = rows["offset"][error.row].as_py()
            raise ToolFailed(
                f"the message at offset {offset} of {log.files[0].partition} takes {error.size_bytes} bytes; "
                f"max.request.size is {error.max_request_size}"
            ) from error
        pending.append(rows)
        pending_bytes += rows.nbytes
        if pending_bytes >= _FLUSH_BYTES:
            _flush(producer, log, pending)
            pending_bytes = 0
    _flush(producer, log, pending)


def _flush(producer: Producer, log: _Log, pending: list[pa.RecordBatch]) -> None:
    producer.flush()
    for rows in pending:
        log.note_done(rows)
    pending.clear()


def _rows_of(log: _Log) -> Iterator[pa.RecordBatch]:
    """Raises OSError; UnreadableBatch; InvalidOption: no message begins at ``--from-offset``."""
    batches = itertools.chain.from_iterable(map(read_rows, log.files))
    for rows in batches:
        left = rows.slice(int(np.searchsorted(rows["offset"].to_numpy(), log.from_offset)))
        if len(left):
            if (first := left["offset"][0].as_py()) != log.from_offset:
                text = f"--from-offset: no message begins at {log.from_offset}; the next one begins at {first}"
                raise InvalidOption(text)
            yield left
            break
    yield from batches


def _table(logs: list[_Log]) -> Table:
    rows: list[list[Cell]] = []
    for log in logs:
        row: list[Cell] = [str(log.files[0].partition), log.target.topic, log.target.partition]
        rows.append([*row, log.from_offset, log.next_offset, log.records])
    return Table(_COLUMNS, rows)
