"""From a plan and the files of its tasks to the next version of a target. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from spark_kafka_native._jobs.batch_reload.errors import Conflict
from spark_kafka_native._jobs.batch_reload.manifest import (
    HISTORY_LENGTH,
    NO_FORMAT,
    Entry,
    Made,
    Manifest,
    StoredFormat,
    What,
    by_partition,
)
from spark_kafka_native._jobs.batch_reload.plan import Plan
from spark_kafka_native._protocol.topic import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The file of one task attempt; it is valid only if the driver adds it to a manifest."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    path: str
    """Empty: there was no record."""
    rows: int
    bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A run whose tasks have finished, to be published."""

    load_id: str
    created_ms: int
    base: Manifest | None
    plan: Plan
    entries: tuple[Entry, ...]
    format: StoredFormat

    @property
    def continues(self) -> bool:
        """Whether the run begins at the position of each partition, so that it needs no entry before it."""
        positions = self.base.positions if self.base else {}
        return not self.plan.replaces and all(
            part.from_offset >= positions.get(part.partition, part.from_offset) for part in self.plan.partitions
        )


def entries_of(load_id: str, written: Sequence[Written], plan: Plan) -> tuple[Entry, ...]:
    """The entries that a run adds: one for each range written, and one for each that is lost."""
    entries = [Entry(**asdict(each), load_id=load_id, what=What.FILE if each.path else What.EMPTY) for each in written]
    return (*entries, *ranges_without_file(load_id, plan, lost_only=True))


def ranges_without_file(load_id: str, plan: Plan, *, lost_only: bool = False) -> tuple[Entry, ...]:
    """The entries of a run that makes no files: ranges appended elsewhere, and those that are lost."""
    entries: list[Entry] = []
    for part in plan.partitions:
        if part.lost:
            entries.append(_range(load_id, part.partition, *part.lost, What.LOST))
        if part.records > 0 and not lost_only:
            entries.append(_range(load_id, part.partition, part.read_from, part.until_offset, What.APPENDED))
    return tuple(entries)


def next_version(head: Manifest | None, load: Load) -> Manifest:
    """The version to publish after ``head``. Raises Conflict: ``head`` is not what the run was planned for.

    A run that continues needs no entries in ``head``. Any other run needs all of them (``versions.with_all_entries``).
    """
    if not load.continues:
        assert not any(manifest and manifest.parts for manifest in (head, load.base)), "all entries are needed"
    if head is not None and head is not load.base:
        _check_unchanged(head, load)
    entries = by_partition(head.entries if head else ())
    positions = dict(head.positions) if head else {}
    added = by_partition(load.entries)
    for part in load.plan.partitions:
        tp = part.partition
        replaced = frozenset(part.replaced)
        kept = [entry for entry in entries.get(tp, ()) if not part.starts_over and entry not in replaced]
        entries[tp] = sorted([*kept, *added.get(tp, ())], key=lambda entry: entry.from_offset)
        positions[tp] = max([part.until_offset, *(entry.until_offset for entry in kept)])
    for tp in _forgotten(positions, load.plan):
        positions.pop(tp)
        entries.pop(tp, None)
    ids = dict(head.topic_ids) if head else {}
    made = Manifest(
        version=head.version + 1 if head else 1,
        load_id=load.load_id,
        kind="reload" if load.plan.replaces else "load",
        created_ms=load.created_ms,
        format=load.format,
        positions=positions,
        entries=tuple(entry for tp in sorted(entries) for entry in entries[tp]),
        parts=head.parts if head else (),
        parts_until=head.parts_until if head else {},
        topic_ids=ids | dict(load.plan.topic_ids),
        removed_loads=head.removed_loads if head else (),
    )
    return with_history(made, head)


def with_history(made: Manifest, head: Manifest | None) -> Manifest:
    """A version with its line added to the history of the one before."""
    line = Made(version=made.version, load_id=made.load_id, kind=made.kind, created_ms=made.created_ms)
    return replace(made, history=(*(head.history if head else ()), line)[-HISTORY_LENGTH:])


def _forgotten(known: Iterable[TopicPartition], plan: Plan) -> list[TopicPartition]:
    over = {part.partition.topic for part in plan.partitions if part.starts_over}
    return sorted({tp for tp in known if tp.topic in over} - {part.partition for part in plan.partitions})


def _check_unchanged(head: Manifest, load: Load) -> None:
    if load.load_id in head.removed_loads:
        raise Conflict(
            f"version {head.version} has removed this run as dead, with its files, because its lease was not renewed "
            "for too long; run it again"
        )
    if head.format not in {load.format, NO_FORMAT}:
        raise Conflict(f"another run made version {head.version} with another format; no part of this run is visible")
    base = load.base
    compared = not load.continues
    now = by_partition(head.entries if compared else ())
    before = by_partition(base.entries if base and compared else ())
    for part in load.plan.partitions:
        tp = part.partition
        found = (head.positions.get(tp), now.get(tp))
        known = (base and base.positions.get(tp), before.get(tp))
        ids = {base and base.topic_ids.get(tp.topic), load.plan.topic_ids.get(tp.topic)}
        if found != known or head.topic_ids.get(tp.topic) not in ids:
            raise Conflict(
                f"another run ({head.load_id}) published {tp} in version {head.version} meanwhile; no part of this "
                "run is visible; run it again, and it continues after that version"
            )


def _range(load_id: str, tp: TopicPartition, from_offset: int, until_offset: int, what: What) -> Entry:
    return Entry(
        topic=tp.topic,
        partition=tp.partition,
        from_offset=from_offset,
        until_offset=until_offset,
        load_id=load_id,
        what=what,
    )
