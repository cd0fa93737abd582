"""Decisions, and the records that they are in the topic of decisions.

A decision is one transaction: records with the handles of its tasks, if it has any, and behind them the record that
makes it whole. Values are JSON, so that a console consumer shows them.

    handles-<i>   {"version":1, "fence":[id,epoch], "handles":[[transactional id, producer id, epoch, spans],...]}
                  spans: [[topic, partition, from offset, until offset],...]
    decision      {"version":1, "fence":[id,epoch], "state":"decided", "owner":["query",id], "batch":7, "parts":2}
                  {"version":1, "fence":[id,epoch], "state":"finished", "owner":["query",id], "batch":7}
                  {"version":1, "fence":[id,epoch], "state":"released"}

The last record ``decision`` counts. Parts count if they stand right before it and have its fence; what older decisions
have left is skipped, and goes when the topic is compacted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from spark_kafka_native.protocol.topic import TopicPartition
from spark_kafka_native.records.batch import ProducerIdAndEpoch
from spark_kafka_native.spark.exactly_once.effects import End, Entry, Log, Written
from spark_kafka_native.spark.exactly_once.errors import ExactlyOnceError, Trouble, command

VERSION: Final = 1
PART_BYTES: Final = 256 * 1024
"""Size at which another part begins; a part may become twice as large, far below a topic's usual bound of 1 MiB."""
PARTITIONS_AT_ONCE: Final = 2_000
"""A task that has written to more partitions is spread over several entries, which are joined again."""

_DECISION: Final = b"decision"
_PART: Final = "handles-"


class OwnerKind(StrEnum):
    """Who uses a prefix."""

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
    """A task's transaction, left open: all that is needed to end it, and what it has in which partitions."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    written: tuple[Written, ...]

    @property
    def end(self) -> End:
        """What to end."""
        return End(self.transactional_id, self.producer)


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch is to be committed, or all of it has been."""

    fence: ProducerIdAndEpoch
    """Who decided; also where another one writes down that it is finished."""
    owner: Owner
    batch_id: int
    handles: tuple[Handle, ...] = ()
    finished: bool = False

    def as_finished(self) -> "Decision":
        """The same decision, all of it committed."""
        return replace(self, handles=(), finished=True)


def decision_entries(decision: Decision) -> tuple[Entry, ...]:
    """The records of a decision, in order."""
    fence = _pair(decision.fence)
    head = _dump({"version": VERSION, "fence": fence, "handles": []}).removesuffix(b"]}")
    parts = tuple(
        Entry(f"{_PART}{index}".encode(), b"%s%s]}" % (head, b",".join(handles)))
        for index, handles in enumerate(_parts(decision.handles))
    )
    header: dict[str, Any] = {
        "version": VERSION,
        "fence": fence,
        "state": "finished" if decision.finished else "decided",
        "owner": [decision.owner.kind.value, decision.owner.id],
        "batch": decision.batch_id,
    }
    if not decision.finished:
        header["parts"] = len(parts)
    return (*parts, Entry(_DECISION, _dump(header)))


def released_entries(fence: ProducerIdAndEpoch) -> tuple[Entry, ...]:
    """The record that makes a prefix anybody's."""
    return (Entry(_DECISION, _dump({"version": VERSION, "fence": _pair(fence), "state": "released"})),)


class NotThere(Exception):
    """What was read does not reach back to where the last decision begins."""


def last_decision(topic: str, log: Log) -> Decision | None:
    """The last decision in a log; None: there is none, or the prefix was released after it.

    Raises NotThere, unless the log is whole. Raises ExactlyOnceError (CORRUPT): it is not understood, or a part is
    missing. Nothing else is looked at: what stands before it is history.
    """
    last = max((index for index, entry in enumerate(log.entries) if entry.key == _DECISION), default=None)
    if last is None:
        if log.whole:
            return None
        raise NotThere
    begin = max((index + 1 for index in range(last) if log.entries[index].key == _DECISION), default=0)
    parts = {entry.key: entry for entry in log.entries[begin:last]}
    try:
        return _read(topic, _load(topic, log.entries[last]), parts)
    except _PartMissing as missing:
        if log.whole:
            raise _corrupt(topic, f"part {missing} of the last decision is missing") from None
        raise NotThere from None


class _PartMissing(Exception):
    pass


def _read(topic: str, header: Mapping[str, Any], parts: Mapping[bytes, Entry]) -> Decision | None:
    try:
        state, fence = header["state"], _producer(header["fence"])
        if state == "released":
            return None
        kind, name = header["owner"]
        decision = Decision(fence, Owner(OwnerKind(kind), _text(name)), _number(header["batch"], least=-1))
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
        raise _corrupt(topic, f"the last decision is not understood ({type(error).__name__}: {error})") from None


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
        Written(TopicPartition(_text(topic), _number(partition)), _number(first), _number(until))
        for topic, partition, first, until in spans
    )
    return Handle(_text(transactional_id), _producer([producer_id, epoch]), written)


def _load(topic: str, entry: Entry) -> Mapping[str, Any]:
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
        raise ValueError(f"{value!r} is no such number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _shown(key: bytes) -> str:
    return repr(key[:40].decode("utf-8", "replace"))


def _corrupt(topic: str, what: str) -> ExactlyOnceError:
    return ExactlyOnceError(
        Trouble.CORRUPT,
        f"topic {topic}: {what}. Nothing was decided or written because of it. Did anybody but this sink write to the "
        "topic? This makes its prefix usable again, forgets the last batch, and aborts what of it is not committed: "
        + command("release", topic.removesuffix(".decisions")),
    )
