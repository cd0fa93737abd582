import dataclasses
import json

import pytest

from spark_kafka_native._jobs.batch_reload.manifest import (
    Entry,
    Made,
    Manifest,
    ManifestError,
    ManifestPart,
    What,
    from_json,
    part_from_json,
    part_to_json,
    problems,
    to_json,
)
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.spark.reload_driver import JSON

T0 = TopicPartition("t", 0)


def entry(first: int, end: int, *, partition: int = 0, what: What = What.FILE, path: str = "") -> Entry:
    named = path or f"_loads/l/t/{partition}-{first}.json" if what is What.FILE else ""
    rows, size = (end - first, 100) if what is What.FILE else (0, 0)
    return Entry(
        topic="t",
        partition=partition,
        from_offset=first,
        until_offset=end,
        load_id="l",
        what=what,
        path=named,
        rows=rows,
        bytes=size,
        crc32c=7 if what is What.FILE else 0,
    )


def manifest(*entries: Entry, **positions: int) -> Manifest:
    return Manifest(
        version=7,
        load_id="l",
        kind="reload",
        created_ms=12,
        format=JSON,
        positions={TopicPartition("t", int(name[1:])): offset for name, offset in positions.items()},
        entries=entries,
        topic_ids={"t": "an id"},
        removed_loads=("dead",),
        history=(Made(version=7, load_id="l", kind="reload", created_ms=12),),
    )


WHOLE = manifest(
    entry(0, 10), entry(10, 14, what=What.EMPTY), entry(14, 20, what=What.LOST), entry(3, 5, partition=1), p0=20, p1=5
)


def test_a_manifest_is_the_same_after_writing_and_reading() -> None:
    assert from_json(to_json(WHOLE), "x") == WHOLE
    nothing = manifest()
    assert from_json(to_json(nothing), "x") == nothing
    assert from_json(to_json(WHOLE), "x").rows == 12


PART = ManifestPart(path="_loads/l/entries-1.json", entries=2, rows=9, bytes=300, crc32c=5)


def test_round_trip_with_parts() -> None:
    with_parts = dataclasses.replace(
        manifest(entry(10, 14), p0=14, p1=5), parts=(PART,), parts_until={T0: 10, TopicPartition("t", 1): 5}
    )
    assert from_json(to_json(with_parts), "x") == with_parts
    assert with_parts.rows == 4 + 9
    assert problems(with_parts) == []
    assert json.loads(to_json(with_parts))["manifest_format"] == 2
    assert json.loads(to_json(WHOLE))["manifest_format"] == 1, "older releases read it"
    assert part_from_json(part_to_json(WHOLE.entries), "x") == WHOLE.entries
    with pytest.raises(ManifestError, match="y: not a part"):
        part_from_json(b"{}", "y")


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (manifest(entry(11, 14), p0=14), "t-0 has entries in parts up to offset 10, and continues at 11"),
        (manifest(entry(9, 14), p0=14), "t-0 has entries in parts up to offset 10, and continues at 9"),
        (manifest(p0=14), "t-0 has entries in parts up to offset 10, and continues at 14"),
        (manifest(), "t-0 has entries in parts up to offset 10, and continues at None"),
    ],
)
def test_entries_continue_where_those_in_parts_end(tail: Manifest, said: str) -> None:
    assert problems(dataclasses.replace(tail, parts=(PART,), parts_until={T0: 10})) == [said]


def test_manifest_is_documented_json() -> None:
    stored = json.loads(to_json(WHOLE))
    assert [file["path"] for file in stored["files"]] == ["_loads/l/t/0-0.json", "_loads/l/t/1-3.json"]
    assert stored["files"][0] == {
        "topic": "t",
        "partition": 0,
        "from_offset": 0,
        "until_offset": 10,
        "rows": 10,
        "bytes": 100,
        "crc32c": 7,
        "path": "_loads/l/t/0-0.json",
        "load_id": "l",
    }
    assert [each["what"] for each in stored["without_file"]] == ["empty", "lost"]
    assert stored["positions"] == {"t": {"0": 20, "1": 5}}


def test_truncated_manifests_and_other_formats_are_refused() -> None:
    data = to_json(WHOLE).rstrip()
    for end in range(0, len(data) - 1, 7):
        with pytest.raises(ManifestError, match="target/7: not a manifest"):
            from_json(data[:end], "target/7")
    with pytest.raises(ManifestError, match="format 3 is newer"):
        from_json(data.replace(b'"manifest_format": 1', b'"manifest_format": 3'), "x")
    with pytest.raises(ManifestError, match="not a manifest"):
        from_json(b"[]", "x")


def test_adjacent_entries_have_no_problem() -> None:
    assert problems(WHOLE) == []
    assert problems(manifest(p0=5)) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (manifest(entry(0, 5), entry(6, 9), p0=9), "t-0 offsets [5, 6) are in no file"),
        (manifest(entry(0, 5), entry(4, 9), p0=9), "t-0 offsets [4, 5) are in two files"),
        (manifest(entry(0, 5), p0=9), "t-0 has the position 9, and its files end at 5"),
        (manifest(entry(0, 5)), "t-0 has files and no position"),
        (manifest(entry(5, 5), p0=5), "t-0 offsets [5, 5) is empty"),
        (manifest(entry(0, 5, path="a"), entry(5, 6, path="a"), p0=6), "a appears twice"),
    ],
)
def test_problems_of_a_manifest_are_named(wrong: Manifest, said: str) -> None:
    assert problems(wrong) == [said]
    assert problems(dataclasses.replace(wrong, version=8)) == [said]
