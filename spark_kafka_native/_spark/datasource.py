"""``format("pykafka")``: the data source that Spark makes from options.

Spark makes one instance for each ``load()`` or ``save()``, or at the first use if the user gives a schema, and pickles
it to the processes that plan and write. It has the options and, with ``bindOffsets=load``, the ranges to read.

Every process of a query imports this module, also those that neither read nor write. So a method imports what it needs.
"""

import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from spark_kafka_native._spark.source.bound_ranges import bound_at_load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from spark_kafka_native._spark.options.parsed import SinkOptions
    from spark_kafka_native._spark.sink.rows import SinkRows
    from spark_kafka_native._spark.sink.writer import PyKafkaStreamWriter, PyKafkaWriter
    from spark_kafka_native._spark.source.batch_reader import PyKafkaReader
    from spark_kafka_native._spark.source.stream_reader import PyKafkaStreamReader


class PyKafkaDataSource(DataSource):
    """The data source of ``format("pykafka")``: Kafka topics as DataFrames, batch and streaming, read and written.

    A source has these columns, all nullable. A schema given by the user names some of them, in any order:

    =============  ============================================  ======================================================
    column         Spark type; others that a schema may have     content
    =============  ============================================  ======================================================
    key            binary; string                                null: the record has none
    value          binary; string                                null: a tombstone
    topic          string
    partition      int
    offset         bigint
    timestamp      timestamp; bigint, ms since 1970 UTC
    timestampType  int                                           0: create time, 1: log append time, -1: none
    headers        array<struct<key:string,value:binary>>;       only with the option ``includeHeaders``; null: none
                   map<string,binary>; string for binary
    =============  ============================================  ======================================================

    A sink writes these columns, whose names are matched exactly, and ignores others:

    =============  ============================================  ======================================================
    column         Spark type                                    content
    =============  ============================================  ======================================================
    value          binary or string                              required; null is a tombstone
    key            binary or string
    topic          string                                        required without the option ``topic``, which wins
    partition      int                                           null: the partitioner chooses
    headers        array<struct<key:string,value:binary>>,       null is the same as empty; the order is kept
                   map<string,binary> or map<string,string>
    timestamp      timestamp                                     only with the option ``includeTimestamp``; null, and
                                                                 the -1 ms of records without a time, is the time of
                                                                 the write
    =============  ============================================  ======================================================

    docs/options.md lists the options. An invalid option is an ``OptionError``. Spark shows errors as their text, in an
    ``AnalysisException`` before a query starts, else in a ``StreamingQueryException`` or ``PythonException``; the code
    in brackets, such as ``[KAFKA_DATA_LOSS.PARTITIONS_DELETED]``, is stable.

    >>> rows = spark.createDataFrame([("ann", "/docs")], "key string, value string")
    >>> cluster = {"kafka.bootstrap.servers": servers}
    >>> rows.write.format("pykafka").mode("append").options(**cluster, topic="visits").save()
    >>> visits = spark.read.format("pykafka").options(**cluster, subscribe="visits").load()
    >>> visits.selectExpr("CAST(key AS STRING)", "partition", "offset").show()
    +---+---------+------+
    |key|partition|offset|
    +---+---------+------+
    |ann|        0|     0|
    +---+---------+------+
    <BLANKLINE>
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._load_id = uuid.uuid4().hex
        """The same in all copies that Spark makes of this instance, and different for each ``load()``."""
        self._bound = bound_at_load(options)
        """The ranges of ``bindOffsets=load``, also in all copies; None if offsets are not bound at load."""

    @classmethod
    def name(cls) -> str:
        """The format's name. ``kafka`` is the JVM connector."""
        return "pykafka"

    def schema(self) -> "StructType":
        """The columns, if the user gives no schema. Checks the options at ``load()``."""
        from spark_kafka_native._spark.options.parsing import check_source_options
        from spark_kafka_native._spark.source.schema import source_schema

        return source_schema(include_headers=check_source_options(self.options).include_headers)

    def reader(self, schema: "StructType") -> "PyKafkaReader":
        """The batch reader for the source's columns that ``schema`` names."""
        from spark_kafka_native._spark.options.parsing import Query, parse_source_options
        from spark_kafka_native._spark.source.batch_reader import batch_reader
        from spark_kafka_native._spark.source.layout import layout_of

        options = parse_source_options(self.options, Query.BATCH)
        return batch_reader(options, layout_of(schema, options.invalid_utf8), self._load_id, self._bound)

    def streamReader(self, schema: "StructType") -> "PyKafkaStreamReader":  # noqa: N802  # Spark's name
        """The streaming reader for the source's columns that ``schema`` names."""
        from spark_kafka_native._spark.options.parsing import Query, parse_source_options
        from spark_kafka_native._spark.source.layout import layout_of
        from spark_kafka_native._spark.source.stream_reader import PyKafkaStreamReader

        options = parse_source_options(self.options, Query.STREAM)
        return PyKafkaStreamReader(options, layout_of(schema, options.invalid_utf8))

    def writer(self, schema: "StructType", overwrite: bool) -> "PyKafkaWriter":
        """The batch writer. Raises OptionError for ``mode("overwrite")``: a topic is only ever appended to."""
        if overwrite:
            from spark_kafka_native._spark.errors import OptionError

            text = "overwrite is not possible: a topic is only ever appended to; use mode('append')"
            raise OptionError("mode", text)
        options, rows = self._sink(schema)
        if options.exactly_once is not None:
            from spark_kafka_native._spark.sink.exactly_once import ExactlyOnceWriter

            return ExactlyOnceWriter(options, rows)
        from spark_kafka_native._spark.sink.writer import PyKafkaWriter

        return PyKafkaWriter(options, rows)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "PyKafkaStreamWriter":  # noqa: ARG002, N802  # Spark's
        """The streaming writer, for output modes append and complete (``overwrite``): both append what there is."""
        options, rows = self._sink(schema)
        if options.exactly_once is not None:
            from spark_kafka_native._spark.sink.exactly_once import ExactlyOnceStreamWriter

            return ExactlyOnceStreamWriter(options, rows)
        from spark_kafka_native._spark.sink.writer import PyKafkaStreamWriter

        return PyKafkaStreamWriter(options, rows)

    def _sink(self, schema: "StructType") -> "tuple[SinkOptions, SinkRows]":
        """The options and the columns of a write."""
        from spark_kafka_native._spark.options.parsing import parse_sink_options
        from spark_kafka_native._spark.sink.rows import sink_rows

        options = parse_sink_options(self.options)
        return options, sink_rows(schema, options.topic, include_timestamp=options.include_timestamp)


def register(spark: "SparkSession") -> None:
    """Register ``format("pykafka")`` in a session, unless Spark has found it, as it does in an installed package.

    Make the session the active one of a thread that has none. Spark looks for the format of ``df.write`` in the active
    session, so a thread that the program starts calls this before it writes. A second call has no effect.

    >>> register(spark)
    """
    # Spark would log a warning about a second registration, and one more at each start of a stream.
    if not _is_known(spark):
        spark.dataSource.register(PyKafkaDataSource)
    if hasattr(spark, "_jsparkSession") and type(spark).getActiveSession() is None:
        spark.createDataFrame([], "a int")  # makes the session the thread's active one; there is no method for that


def _is_known(spark: Any) -> bool:
    """Whether the session has the format, found by Spark or registered; False if unknown, as with Spark Connect."""
    from py4j.protocol import Py4JError

    try:
        manager = spark._jsparkSession.sessionState().dataSourceManager()  # noqa: SLF001  # there is no public way
        return bool(manager.dataSourceExists(PyKafkaDataSource.name()))
    except (AttributeError, TypeError, Py4JError):
        return False
