"""A manifest: the complete content of one version of a target, as a value and as JSON. Pure.

``_manifests/0000000007.json``::

    {"manifest_format": 1, "version": 7, "load_id": "20261120T100000Z-9f2c41d0", "kind": "load", "created_ms": ...,
     "format": {"name": "parquet", "columns": [{"name": "key", "type": "binary"}, ...]},
     "topic_ids": {"events": "..."},
     "positions": {"events": {"0": 1200}},
     "files": [{"topic": "events", "partition": 0, "from_offset": 0, "until_offset": 1200, "rows": 1200,
                "bytes": 52311, "crc32c": 3735928559, "path": "_loads/<load id>/events/00000-...parquet",
                "load_id": "..."}, ...],
     "without_file": [{"topic": ..., "partition": ..., "from_offset": ..., "until_offset": ..., "what": "empty",
                       "load_id": ...}, ...],
     "removed_loads": [...], "history": [{"version": 7, "load_id": ..., "kind": ..., "created_ms": ...}, ...]}

The files and the ranges without a file of each partition, sorted by offset, are adjacent. The last one ends at the
partition's position, where the next load starts.

The entries of a target grow with every run. So a version with more than ``TAIL_ENTRIES`` moves all of them to
**parts**, files that later versions name and do not write again. Its format is 2::

    {"manifest_format": 2, ..., "parts": [{"path": "_loads/<load id>/entries-<random>.json", "entries": 10000,
     "rows": ..., "bytes": ..., "crc32c": ...}, ...], "parts_until": {"events": {"0": 1200}}, "files": [...], ...}

``parts_until`` is where the parts' entries of a partition end, and the entries in the manifest continue. A part has the
lists ``files`` and ``without_file`` of a manifest.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.offsets import OffsetMap, format_offsets, parse_offsets

MANIFEST_FORMAT: Final = 1
FORMAT_WITH_PARTS: Final = 2
HISTORY_LENGTH: Final = 1000
TAIL_ENTRIES: Final = 10_000
"""Entries that a manifest has in itself, some 3 MB; a part has as many."""


class What(StrEnum):
    """The result of loading a range of offsets."""

    FILE = "file"
    """They are in a file."""
    EMPTY = "empty"
    """There were none: control records, aborted transactions, compaction."""
    LOST = "lost"
    """They were deleted before they were loaded, and the user has accepted that."""
    APPENDED = "appended"
    """They were written to a table or another format of Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A range of offsets ``[from_offset, until_offset)`` of a partition, and where its records are."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int
    load_id: str
    what: What = What.FILE
    path: str = ""
    """Relative to the target; of a file only, as are the next three."""
    rows: int = 0
    bytes: int = 0
    crc32c: int = 0
    """Of the file's bytes."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the range."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offsets [{self.from_offset}, {self.until_offset})"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFormat:
    """How the files of a target are written, all of them: the format's name, and columns with their Spark types."""

    name: str
    columns: tuple[tuple[str, str], ...]


NO_FORMAT: Final = StoredFormat(name="", columns=())
"""Of a version that a clean made before the first load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One line of a target's history: the run of a version, its time, and its kind (load, reload, clean)."""

    version: int
    load_id: str
    kind: str
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPart:
    """A file with entries of a target."""

    path: str
    """Relative to the target."""
    entries: int
    rows: int
    bytes: int
    """Size of the part's file; ``crc32c`` is that of the file, too."""
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of a target."""

    version: int
    load_id: str
    kind: str
    created_ms: int
    format: StoredFormat
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    """By partition and offset; without those in ``parts``."""
    parts: tuple[ManifestPart, ...] = ()
    parts_until: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The end of the parts' entries, for each partition that has any."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    removed_loads: tuple[str, ...] = ()
    """Loads that a clean has found dead; they can never be published."""
    history: tuple[Made, ...] = ()
    """The versions that led to this one, itself included; only the last thousand."""

    @property
    def files(self) -> tuple[Entry, ...]:
        """The entries that have a file, without those in ``parts``."""
        return tuple(entry for entry in self.entries if entry.what is What.FILE)

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(entry.rows for entry in self.files) + sum(part.rows for part in self.parts)


class ManifestError(ValueError):
    """Bytes that are no valid manifest; ``str()`` has the reason."""


def by_partition(entries: Iterable[Entry]) -> dict[TopicPartition, list[Entry]]:
    """Entries of each partition, by offset."""
    found: dict[TopicPartition, list[Entry]] = {}
    for entry in sorted(entries, key=lambda each: (each.topic_partition, each.from_offset)):
        found.setdefault(entry.topic_partition, []).append(entry)
    return found


def problems(manifest: Manifest) -> list[str]:
    """The errors in a manifest: gaps, overlaps, ends that are not the positions."""
    found: list[str] = []
    in_manifest = by_partition(manifest.entries)
    for tp, until in manifest.parts_until.items():
        begin = in_manifest[tp][0].from_offset if tp in in_manifest else manifest.positions.get(tp)
        if begin != until:
            found.append(f"{tp} has entries in parts up to offset {until}, and continues at {begin}")
    for tp, entries in in_manifest.items():
        found += [f"{entry} is empty" for entry in entries if entry.until_offset <= entry.from_offset]
        for before, after in pairwise(entries):
            if before.until_offset < after.from_offset:
                found.append(f"{tp} offsets [{before.until_offset}, {after.from_offset}) are in no file")
            elif before.until_offset > after.from_offset:
                both = f"[{after.from_offset}, {min(before.until_offset, after.until_offset)})"
                found.append(f"{tp} offsets {both} are in two files")
        position = manifest.positions.get(tp)
        if position is None:
            found.append(f"{tp} has files and no position")
        elif position != entries[-1].until_offset:
            found.append(f"{tp} has the position {position}, and its files end at {entries[-1].until_offset}")
    paths = Counter(entry.path for entry in manifest.files)
    found += [f"{path} appears twice" for path, count in sorted(paths.items()) if count > 1]
    return found


def to_json(manifest: Manifest) -> bytes:
    """A manifest as it is stored, with one line per file."""
    head: dict[str, Any] = {
        "manifest_format": FORMAT_WITH_PARTS if manifest.parts else MANIFEST_FORMAT,
        "version": manifest.version,
        "load_id": manifest.load_id,
        "kind": manifest.kind,
        "created_ms": manifest.created_ms,
        "format": {
            "name": manifest.format.name,
            "columns": [{"name": name, "type": kind} for name, kind in manifest.format.columns],
        },
        "topic_ids": dict(sorted(manifest.topic_ids.items())),
        "positions": format_offsets(manifest.positions),
    }
    if manifest.parts:
        head["parts_until"] = format_offsets(manifest.parts_until)
    lists: dict[str, list[Any]] = {
        **({"parts": [asdict(part) for part in manifest.parts]} if manifest.parts else {}),
        **_entries_json(manifest.entries),
        "removed_loads": list(manifest.removed_loads),
        "history": [asdict(made) for made in manifest.history],
    }
    return _document(head, lists)


def part_to_json(entries: Iterable[Entry]) -> bytes:
    """Entries as a part stores them."""
    return _document({}, _entries_json(entries))


def part_from_json(data: bytes, name: str) -> tuple[Entry, ...]:
    """The entries of a stored part. Raises ManifestError naming the file ``name``."""
    try:
        return _entries(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(f"{name}: not a part of a manifest ({type(error).__name__}: {error})") from error


def from_json(data: bytes, name: str) -> Manifest:
    """A stored manifest -> its value. Raises ManifestError naming the file ``name``."""
    try:
        stored = json.loads(data)
        if stored["manifest_format"] not in {MANIFEST_FORMAT, FORMAT_WITH_PARTS}:
            raise ManifestError(f"{name}: format {stored['manifest_format']!r} is newer than this program")
        return _manifest(stored)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ManifestError):
            raise
        raise ManifestError(f"{name}: not a manifest ({type(error).__name__}: {error})") from error


def _manifest(stored: Mapping[str, Any]) -> Manifest:
    return Manifest(
        version=stored["version"],
        load_id=stored["load_id"],
        kind=stored["kind"],
        created_ms=stored["created_ms"],
        format=StoredFormat(
            name=stored["format"]["name"],
            columns=tuple((column["name"], column["type"]) for column in stored["format"]["columns"]),
        ),
        positions=_positions(stored["positions"]),
        entries=_entries(stored),
        parts=tuple(ManifestPart(**part) for part in stored.get("parts", ())),
        parts_until=_positions(stored.get("parts_until", {})),
        topic_ids=dict(stored["topic_ids"]),
        removed_loads=tuple(stored["removed_loads"]),
        history=tuple(Made(**made) for made in stored["history"]),
    )


def _entries(stored: Mapping[str, Any]) -> tuple[Entry, ...]:
    entries = [Entry(**item) for item in stored["files"]]
    entries += [Entry(**{**item, "what": What(item["what"])}) for item in stored["without_file"]]
    return tuple(sorted(entries, key=lambda entry: (entry.topic_partition, entry.from_offset)))


def _positions(stored: Mapping[str, Mapping[str, int]]) -> OffsetMap:
    return parse_offsets(stored) if stored else {}


def _entries_json(entries: Iterable[Entry]) -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = {"files": [], "without_file": []}
    for entry in entries:
        if entry.what is What.FILE:
            about_file = {"rows": entry.rows, "bytes": entry.bytes, "crc32c": entry.crc32c, "path": entry.path}
            lists["files"].append({**_range_json(entry), **about_file, "load_id": entry.load_id})
        else:
            lists["without_file"].append({**_range_json(entry), "what": entry.what.value, "load_id": entry.load_id})
    return lists


def _document(head: Mapping[str, Any], lists: Mapping[str, Iterable[Any]]) -> bytes:
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, items in lists.items():
        rows = ",\n  ".join(map(json.dumps, items))
        lines.append(f"{json.dumps(key)}: [{rows}]")
    return ("{" + ",\n ".join(lines) + "}\n").encode()


def _range_json(entry: Entry) -> dict[str, Any]:
    return {
        "topic": entry.topic,
        "partition": entry.partition,
        "from_offset": entry.from_offset,
        "until_offset": entry.until_offset,
    }
