"""Loads into any format that Spark can write: at least once, with the load id of the run in a column.

A data source does not report when its rows are durable. So a run first writes its rows, with its load id in a column,
and then publishes its positions. If a run fails in between, the next one writes the same records again with another
load id. Rows of finished runs are those whose load id is in the manifest's history.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_kafka_native._jobs.batch_reload.errors import ReloadError
from spark_kafka_native._jobs.batch_reload.leases import Lease
from spark_kafka_native._jobs.batch_reload.loading import publish_load
from spark_kafka_native._jobs.batch_reload.manifest import TAIL_ENTRIES, Manifest, StoredFormat
from spark_kafka_native._jobs.batch_reload.merge import Load, ranges_without_file
from spark_kafka_native._jobs.batch_reload.plan import Plan
from spark_kafka_native._jobs.batch_reload.running import Watch
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._spark.offsets import offsets_to_json

LOAD_ID_COLUMN: Final = "load_id"


def append_to(
    frame: DataFrame, *, format_name: str, path: str | None, table: str | None, options: Mapping[str, str]
) -> None:
    """Append rows to a path or table of a format. Raises PySparkException."""
    writer = frame.write.format(format_name).mode("append").options(**dict(options))
    if table is not None:
        writer.saveAsTable(table)
    else:
        writer.save(path)


def records_of(
    spark: SparkSession,
    plan: Plan,
    options: Mapping[str, str],
    schema: StructType,
    load_id: str,
    *,
    tasks: Mapping[str, int | None],
) -> DataFrame:
    """The records of a plan, without later ones, with the load id. ``options`` are those of the source."""
    parts = [part for part in plan.partitions if part.records > 0]
    named = {key: value for key, value in options.items() if not key.lower().startswith("subscribe")}
    assigned: dict[str, list[int]] = {}
    for part in parts:
        assigned.setdefault(part.partition.topic, []).append(part.partition.partition)
    reader = spark.read.format("pykafka").options(**named).options(**{key: str(n) for key, n in tasks.items() if n})
    return (
        reader.option("assign", json.dumps(assigned))
        .option("startingOffsets", offsets_to_json({part.partition: part.read_from for part in parts}))
        .option("endingOffsets", offsets_to_json({part.partition: part.until_offset for part in parts}))
        .schema(schema)
        .load()
        .withColumn(LOAD_ID_COLUMN, F.lit(load_id))
    )


def append_rows(
    storage: Storage,
    load_id: str,
    base: Manifest | None,
    plan: Plan,
    format_name: str,
    write: Callable[[Watch], object],
    *,
    check: Callable[[], None],
    now_ms: float,
    tail_entries: int = TAIL_ENTRIES,
) -> Manifest:
    """Write rows, then publish the positions. Raises Conflict, ReloadError, OSError, and what ``write`` raises.

    An error after rows were written names their load id. ``check`` and ``tail_entries`` are those of a ``FileLoad``.
    ``write`` appends the plan's records with the load id (``records_of``), and calls its argument repeatedly.
    """
    lease = Lease(storage, load_id)
    with lease.held():
        if plan.pieces:
            write(lambda _done: lease.renew())
        done = Load(
            load_id=load_id,
            created_ms=round(now_ms),
            base=base,
            plan=plan,
            entries=ranges_without_file(load_id, plan),
            format=StoredFormat(name=format_name, columns=()),
        )
        if not plan.pieces:
            return publish_load(storage, done, tail_entries=tail_entries)
        try:
            check()
            return publish_load(storage, done, tail_entries=tail_entries)
        except (ReloadError, KafkaError, OSError) as error:
            kind = type(error) if isinstance(error, ReloadError) else ReloadError
            raise kind(
                f"{error}. Rows with load_id {load_id} are written, and count only if the history of a version names it"
            ) from error
