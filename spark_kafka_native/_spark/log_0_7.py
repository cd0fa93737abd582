"""The log files of Kafka 0.7 as a DataFrame."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_kafka_native._log_0_7.files import find_log_files
from spark_kafka_native._log_0_7.rows import read_rows

_SCHEMA: Final = "topic STRING, partition INT, offset BIGINT, nextOffset BIGINT, index INT, value BINARY"


def read_log_0_7(spark: SparkSession, *locations: str) -> DataFrame:
    """The messages in the log files of Kafka 0.7, in one task for each file.

    A location is the ``log.dir`` of a broker, the directory of a partition or a ``.kafka`` file: a path that the driver
    and all executors have, or a URL of Arrow's file systems (file, s3, gs, abfs, hdfs). The files are listed by this
    call, and read by each query.

    Columns: ``topic``, ``partition``, ``offset`` (in bytes), ``nextOffset``, ``index``
    (of a message in a compressed one, else 0) and ``value``. Messages of Kafka 0.7 have neither key nor timestamp.

    Raises LogFilesError: there are no files, a name is not one of Kafka 0.7, or a file between others is missing. A
    damaged message fails the query. One that the broker did not write completely is skipped at the end of a log.

    >>> read_log_0_7(spark, log_dir).select("topic", "partition", "offset", "value").show()
    +------+---------+------+-------------+
    | topic|partition|offset|        value|
    +------+---------+------+-------------+
    |visits|        0|     0|[2F 64 6F 63]|
    +------+---------+------+-------------+
    <BLANKLINE>
    """
    files = find_log_files(locations)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_numpy():
                topic, partition = files[number].partition
                for rows in read_rows(files[number]):
                    columns: list[pa.Array[Any]] = [pa.repeat(topic, len(rows))]
                    columns.append(pa.repeat(pa.scalar(partition, pa.int32()), len(rows)))
                    columns += rows.columns
                    yield pa.RecordBatch.from_arrays(columns, names=["topic", "partition", *rows.schema.names])

    return spark.range(0, len(files), 1, len(files)).mapInArrow(read, _SCHEMA)
