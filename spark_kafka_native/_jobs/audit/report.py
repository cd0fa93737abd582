"""What the audit prints."""

import base64
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row
from rich import box
from rich.table import Table

from spark_kafka_native._jobs.audit.content import KINDS
from spark_kafka_native._jobs.audit.metadata import OffsetCounts

_LONGEST_KEY = 40


def offsets_table(counts: Iterable[OffsetCounts]) -> Table:
    """Numbers of offsets, with their differences."""
    table = _table("topic", "partition", "from time", numbers=("source", "target", "difference"))
    for each in counts:
        time = "" if each.bucket_ms is None else _time(each.bucket_ms)
        numbers = (each.source, each.target, each.target - each.source)
        table.add_row(each.topic, _partition(each.partition), time, *(f"{number:,}" for number in numbers))
    return table


def offsets_record(counts: OffsetCounts) -> dict[str, object]:
    """Numbers of offsets in JSON."""
    return {
        "topic": counts.topic,
        "partition": counts.partition,
        "fromTimestamp": counts.bucket_ms,
        "source": counts.source,
        "target": counts.target,
    }


def kinds_table(rows: Iterable[Row]) -> Table:
    """The result of ``count_kinds``, in which the last two columns are numbers of differences."""
    table = _table("topic", "partition", numbers=("source", "target", *KINDS))
    for row in rows:
        numbers = (row["source"], row["target"], *(row[kind] for kind in KINDS))
        table.add_row(row["topic"], _partition(row["partition"]), *(f"{number:,}" for number in numbers))
    return table


def differences_table(rows: Iterable[Row]) -> Table:
    """Differences of ``compare_records``, one record each."""
    table = _table("difference", "topic", "source", "target", "key", numbers=())
    for row in rows:
        table.add_row(
            row["kind"], row["topic"], *(_position(row[side]) for side in ("source", "target")), _key(row["key"])
        )
    return table


def difference_record(row: Row) -> dict[str, Any]:
    """A difference in JSON. The key is in base64."""
    key = row["key"]
    return {
        "difference": row["kind"],
        "topic": row["topic"],
        **{side: None if row[side] is None else row[side].asDict() for side in ("source", "target")},
        "keyBase64": None if key is None else base64.b64encode(key).decode(),
    }


def result_line(records: int, differences: int, what: str) -> str:
    """One line with the result."""
    if differences:
        return f"{differences:,} differences in {records:,} {what} of the source"
    return f"no difference in {records:,} {what} of the source"


def _table(*texts: str, numbers: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for title in texts:
        table.add_column(title, overflow="fold")
    for title in numbers:
        table.add_column(title, justify="right")
    return table


def _partition(number: int | None) -> str:
    return "all" if number is None else str(number)


def _position(position: Row | None) -> str:
    return "-" if position is None else f"{position['partition']}, offset {position['offset']}"


def _key(key: bytearray | None) -> str:
    if key is None:
        return "null"
    text = bytes(key[:_LONGEST_KEY]).decode(errors="backslashreplace")
    return text if len(key) <= _LONGEST_KEY else f"{text}..."


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
