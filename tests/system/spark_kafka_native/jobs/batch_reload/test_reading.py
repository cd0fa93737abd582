from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_kafka_native._jobs.batch_reload.columns import schema_of, stored_format
from spark_kafka_native._jobs.batch_reload.errors import ReloadError
from spark_kafka_native._jobs.batch_reload.formats import file_format
from spark_kafka_native._jobs.batch_reload.manifest import Manifest, StoredFormat
from spark_kafka_native._jobs.batch_reload.merge import Load, entries_of, next_version
from spark_kafka_native._jobs.batch_reload.plan import Wanted, make_plan
from spark_kafka_native._jobs.batch_reload.reading import load_dataframe
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.versions import publish
from spark_kafka_native._jobs.batch_reload.writing import write_piece
from spark_kafka_native._jobs.points import ClusterState
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.source.layout import layout_of

AT = datetime.fromisoformat("2026-11-20T10:00:00.123+00:00")
T0 = TopicPartition("t", 0)
ROWS: list[dict[str, Any]] = [
    {"key": None, "value": b"", "headers": None},
    {
        "key": b"",
        "value": b"\xff\x00\r\n,\"'\\",
        "headers": [{"key": "a", "value": b"\xfe"}, {"key": "b", "value": None}],
    },
    {"key": b"k", "value": None, "headers": []},
]


def load(target: Path, form: StoredFormat, base: Manifest | None, rows: list[dict[str, Any]], first: int) -> Manifest:
    storage = LocalStorage(str(target))
    state = ClusterState(first={T0: 0}, end={T0: first + len(rows)}, topic_ids={})
    plan = make_plan(base, state, Wanted(points={}, ends={}))
    schema = layout_of(schema_of(form)).arrow_schema
    batch = pa.RecordBatch.from_pylist([whole(row, first + n) for n, row in enumerate(rows)], schema=schema)
    written = [write_piece(storage, file_format(form.name, None), f"l{first}", plan.pieces[0], [batch])]
    done = Load(
        load_id=f"l{first}",
        created_ms=0,
        base=base,
        plan=plan,
        entries=entries_of(f"l{first}", written, plan),
        format=form,
    )
    return publish(storage, base, lambda head: next_version(head, done))


def whole(row: dict[str, Any], offset: int) -> dict[str, Any]:
    return {**row, "topic": "t", "partition": 0, "offset": offset, "timestamp": AT, "timestampType": 0}


@pytest.mark.spark
@pytest.mark.feature("reload.exactlyOnce")
def test_every_format_is_read_as_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("parquet", "orc", "json", "csv"):
        form = stored_format(None, name=name, columns=(), as_string=frozenset())
        target = tmp_path / f"a {name}"
        first = load(target, form, None, ROWS[:2], 0)
        load(target, form, first, ROWS[2:], 2)
        frame = load_dataframe(spark, str(target))
        assert frame.schema == schema_of(form), name
        rows = frame.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("offset").collect()
        found = [{key: value for key, value in row.asDict(recursive=True).items() if key in ROWS[0]} for row in rows]
        assert found == ROWS, name
        assert {row.ms for row in rows} == {round(AT.timestamp() * 1000)}, name
        assert load_dataframe(spark, str(target), 1).count() == 2, name
    (target / "_loads" / "l0" / "t" / "stray.csv").write_text("left by an attempt that failed")
    assert load_dataframe(spark, str(target)).count() == 3
    lines = stored_format(None, name="text", columns=(), as_string=frozenset())
    load(tmp_path / "text", lines, None, [{"value": "a"}, {"value": ""}], 0)
    assert sorted(load_dataframe(spark, str(tmp_path / "text")).collect()) == [("",), ("a",)]
    nothing = Manifest(version=1, load_id="", kind="load", created_ms=0, format=lines)
    publish(LocalStorage(str(tmp_path / "empty")), None, lambda _: nothing)
    assert load_dataframe(spark, str(tmp_path / "empty")).collect() == []
    positions = Manifest(version=1, load_id="", kind="load", created_ms=0, format=StoredFormat(name="jdbc", columns=()))
    publish(LocalStorage(str(tmp_path / "state")), None, lambda _: positions)
    with pytest.raises(ReloadError, match="keeps the positions of a load by format 'jdbc', no files"):
        load_dataframe(spark, str(tmp_path / "state"))
    with pytest.raises(ReloadError, match="nothing has been loaded there"):
        load_dataframe(spark, str(tmp_path / "nowhere"))
