"""Decisions, and their records in the topic of decisions.

A decision is one transaction: records with the handles of its tasks, if it has any, and after them the record
``decision``. Values are JSON, so that a console consumer shows them.

    handles-<i>   {"version":1, "fence":[id,epoch], "handles":[[transactional id, producer id, epoch, spans],...]}
                  spans: [[topic, partition, from offset, until offset],...]
    decision      {"version":1, "fence":[id,epoch], "state":"decided", "owner":["query",id], "batch":7, "rows":90,
                   "parts":2}
                  {"version":1, "fence":[id,epoch], "state":"finished", "owner":["query",id], "batch":7, "rows":90}
                  {"version":1, "fence":[id,epoch], "state":"released"}

``rows`` is optional: `commands.run_again` does not know it.
The last record ``decision`` is valid. Its parts come right before it and have its fence. Records of older decisions are
skipped, and removed when the topic is compacted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.exactly_once.effects import DecisionLog, DecisionRecord, End, WrittenRange
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError, command

VERSION: Final = 1
PART_BYTES: Final = 256 * 1024
"""Size at which another part begins; a part may become twice as large, well below max.message.bytes (1 MiB)."""
PARTITIONS_AT_ONCE: Final = 2_000
"""A task that has written to more partitions has several handle entries, which are joined when they are read."""

_DECISION: Final = b"decision"
_PART: Final = "handles-"


class OwnerKind(StrEnum):
    """The kind of query that uses a prefix."""

    QUERY = "query"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Owner:
    """A streaming query by its id, or one batch write by an id of its own."""

    kind: OwnerKind
    id: str

    def __str__(self) -> str:
        return f"{'streaming query' if self.kind is OwnerKind.QUERY else 'batch write'} {self.id}"


@dataclass(frozen=True, slots=True)
class Handle:
    """A task's open transaction: its producer, and the offsets that it has written in each partition."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    written: tuple[WrittenRange, ...]

    @property
    def end(self) -> End:
        """The request to end the transaction."""
        return End(self.transactional_id, self.producer)


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch is to be committed, or (``finished``) all of it is committed."""

    fence: ProducerIdAndEpoch
    """The driver's producer that decided, also if another one marks the decision as finished."""
    owner: Owner
    batch_id: int
    handles: tuple[Handle, ...] = ()
    finished: bool = False
    rows: int | None = None
    """Rows of the batch; None: unknown."""

    def as_finished(self) -> "Decision":
        """The same decision, all of it committed."""
        return replace(self, handles=(), finished=True)


def decision_records(decision: Decision) -> tuple[DecisionRecord, ...]:
    """The records of a decision, in order."""
    fence = _pair(decision.fence)
    head = _dump({"version": VERSION, "fence": fence, "handles": []}).removesuffix(b"]}")
    parts = tuple(
        DecisionRecord(f"{_PART}{index}".encode(), b"%s%s]}" % (head, b",".join(handles)))
        for index, handles in enumerate(_parts(decision.handles))
    )
    header: dict[str, Any] = {
        "version": VERSION,
        "fence": fence,
        "state": "finished" if decision.finished else "decided",
        "owner": [decision.owner.kind.value, decision.owner.id],
        "batch": decision.batch_id,
    }
    if decision.rows is not None:
        header["rows"] = decision.rows
    if not decision.finished:
        header["parts"] = len(parts)
    return (*parts, DecisionRecord(_DECISION, _dump(header)))


def released_records(fence: ProducerIdAndEpoch) -> tuple[DecisionRecord, ...]:
    """The record that allows any query to use the prefix."""
    return (DecisionRecord(_DECISION, _dump({"version": VERSION, "fence": _pair(fence), "state": "released"})),)


class TailTooShort(Exception):
    """The records that were read begin after the first record of the last decision."""


def last_decision(topic: str, log: DecisionLog) -> Decision | None:
    """The last decision in a log; None: there is none, or the prefix was released after it.

    Raises TailTooShort, unless the log is whole; ExactlyOnceError (CORRUPT): the last decision is invalid, or a part of
    it is missing. Earlier records are not parsed.
    """
    last = max((index for index, entry in enumerate(log.records) if entry.key == _DECISION), default=None)
    if last is None:
        if log.whole:
            return None
        raise TailTooShort
    begin = max((index + 1 for index in range(last) if log.records[index].key == _DECISION), default=0)
    parts = {entry.key: entry for entry in log.records[begin:last]}
    try:
        return _read(topic, _load(topic, log.records[last]), parts)
    except _PartMissing as missing:
        if log.whole:
            raise _corrupt(topic, f"part {missing} of the last decision is missing") from None
        raise TailTooShort from None


class _PartMissing(Exception):
    pass


def _read(topic: str, header: Mapping[str, Any], parts: Mapping[bytes, DecisionRecord]) -> Decision | None:
    try:
        state, fence = header["state"], _producer(header["fence"])
        if state == "released":
            return None
        kind, name = header["owner"]
        rows = header.get("rows")
        decision = Decision(
            fence,
            Owner(OwnerKind(kind), _text(name)),
            _number(header["batch"], least=-1),
            rows=None if rows is None else _number(rows),
        )
        if state == "finished":
            return replace(decision, finished=True)
        if state != "decided":
            raise ValueError(f"state {state!r}")
        handles: dict[str, Handle] = {}
        for index in range(_number(header["parts"])):
            entry = parts.get(f"{_PART}{index}".encode())
            part = None if entry is None else _load(topic, entry)
            if part is None or _producer(part["fence"]) != fence:
                raise _PartMissing(index)
            for handle in map(_handle, part["handles"]):
                before = handles.get(handle.transactional_id)
                written = handle.written if before is None else (*before.written, *handle.written)
                handles[handle.transactional_id] = replace(handle, written=written)
        return replace(decision, handles=tuple(handles.values()))
    except (KeyError, TypeError, ValueError) as error:
        raise _corrupt(topic, f"the last decision is invalid ({type(error).__name__}: {error})") from None


def _parts(handles: Sequence[Handle]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for handle in handles:
        spans = [[*span.partition, span.from_offset, span.until_offset] for span in handle.written]
        for start in range(0, max(len(spans), 1), PARTITIONS_AT_ONCE):
            some = spans[start : start + PARTITIONS_AT_ONCE]
            entry = _dump([handle.transactional_id, *_pair(handle.producer), some])
            if part and size + len(entry) > PART_BYTES:
                yield part
                part, size = [], 0
            part.append(entry)
            size += len(entry)
    if part:
        yield part


def _handle(entry: Any) -> Handle:
    transactional_id, producer_id, epoch, spans = entry
    written = tuple(
        WrittenRange(TopicPartition(_text(topic), _number(partition)), _number(first), _number(until))
        for topic, partition, first, until in spans
    )
    return Handle(_text(transactional_id), _producer([producer_id, epoch]), written)


def _load(topic: str, entry: DecisionRecord) -> Mapping[str, Any]:
    try:
        value = json.loads(entry.value)
    except ValueError:  # among them UnicodeDecodeError
        raise _corrupt(topic, f"a record with key {_shown(entry.key)} is not JSON") from None
    if not isinstance(value, dict) or type(value.get("version")) is not int:
        raise _corrupt(topic, f"a record with key {_shown(entry.key)} has no version")
    if value["version"] != VERSION:
        raise _corrupt(
            topic,
            f"a record with key {_shown(entry.key)} has version {value['version']}, and this release reads version "
            f"{VERSION}: use the release that wrote it",
        )
    return value


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _pair(producer: ProducerIdAndEpoch) -> list[int]:
    return [producer.producer_id, producer.epoch]


def _producer(pair: Any) -> ProducerIdAndEpoch:
    producer_id, epoch = pair
    return ProducerIdAndEpoch(_number(producer_id), _number(epoch))


def _number(value: Any, *, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} is not an integer of at least {least}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _shown(key: bytes) -> str:
    return repr(key[:40].decode("utf-8", "replace"))


def _corrupt(topic: str, what: str) -> ExactlyOnceError:
    return ExactlyOnceError(
        ErrorKind.CORRUPT,
        f"topic {topic}: {what}. Nothing was decided or written. Has another program written to the topic? This "
        "command makes the prefix usable again, deletes the last decision and aborts its open transactions: "
        + command("release", topic.removesuffix(".decisions")),
    )
