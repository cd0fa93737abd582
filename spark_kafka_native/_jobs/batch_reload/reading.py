"""Loaded records as Spark DataFrames."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from spark_kafka_native._jobs.batch_reload.columns import schema_of
from spark_kafka_native._jobs.batch_reload.errors import ReloadError
from spark_kafka_native._jobs.batch_reload.formats import COMPRESSIONS
from spark_kafka_native._jobs.batch_reload.manifest import Manifest, StoredFormat
from spark_kafka_native._jobs.batch_reload.storage.location import StorageLocation
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from spark_kafka_native._jobs.batch_reload.versions import read_version, with_all_entries

_NO_NULL: Final = "\0null\0"
"""Any text but the empty one, which Spark would otherwise read as null even if it is quoted."""
_HEADERS_IN_CSV: Final = "array<struct<key:string,value:string>>"


def load_dataframe(
    spark: SparkSession, target: str, version: int | None = None, *, storage_options: Mapping[str, str] | None = None
) -> DataFrame:
    """The records that the batch reload has loaded into a target, each once.

    The DataFrame has one version, by default the latest, and does not change with later loads. Its columns are the
    columns of the source (``PyKafkaDataSource``) that were loaded. ``storage_options`` are for reading the manifest
    from an object store; Spark reads the files with its own settings.
    Raises ReloadError: the target or the version does not exist.

    >>> load_dataframe(spark, target).groupBy("topic").count().show()
    +------+-----+
    | topic|count|
    +------+-----+
    |visits|    1|
    +------+-----+
    <BLANKLINE>
    """
    storage = StorageLocation(url=target, options=tuple((storage_options or {}).items())).open()
    manifest = read_version(storage, version)
    if manifest is None:
        raise ReloadError(f"{target}: nothing has been loaded there")
    return frame_of(spark, storage, manifest)


def frame_of(spark: SparkSession, storage: Storage, manifest: Manifest) -> DataFrame:
    """The records of a version. Raises ReloadError: they are not in files."""
    schema = schema_of(manifest.format)
    manifest = with_all_entries(storage, manifest)
    paths = [storage.location(entry.path) for entry in manifest.files]
    if manifest.format.name and manifest.format.name not in COMPRESSIONS:
        raise ReloadError(f"{storage.url} keeps the positions of a load by format {manifest.format.name!r}, no files")
    if not paths:
        return spark.createDataFrame([], schema)
    if manifest.format.name == "csv":
        return _csv(spark, manifest.format, paths)
    return spark.read.format(manifest.format.name).schema(schema).load(paths)


def _csv(spark: SparkSession, form: StoredFormat, paths: list[str]) -> DataFrame:
    fields = schema_of(form).fields
    text = StructType([StructField(field.name, StringType()) for field in fields])
    options = {"header": "true", "multiLine": "true", "escape": '"', "nullValue": _NO_NULL}
    lines = spark.read.schema(text).options(**options).csv(paths)
    return lines.select(*[_from_text(field).alias(field.name) for field in fields])


def _from_text(field: StructField) -> Column:
    column = F.col(f"`{field.name}`")
    match field.dataType:
        case BinaryType():
            return F.unbase64(column)
        case StringType():
            return column
        case kind if field.name == "headers":
            parsed = F.from_json(column, _HEADERS_IN_CSV)
            both = F.transform(parsed, lambda header: F.struct(header["key"], F.unbase64(header["value"])))
            return both.cast(kind)
        case kind:
            return column.cast(kind)
