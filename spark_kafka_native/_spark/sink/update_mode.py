"""``outputMode("update")`` into topics, which Spark does not support for a Python sink.

    counts.writeStream.outputMode("update").option("checkpointLocation", "...").foreachBatch(
        write_updates({"kafka.bootstrap.servers": "broker:9092", "topic": "counts"})
    ).start()

The changed rows of every micro-batch are appended, as by Spark's JVM connector in update mode. Delivery is at least
once, as with the JVM connector: a repeated micro-batch is written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.options.exactly_once import GUARANTEE
from spark_kafka_native._spark.options.parsing import parse_sink_options

FORMAT = "pykafka"


@dataclass(frozen=True, slots=True, repr=False)
class KafkaUpdates:
    """The function for ``foreachBatch`` that ``write_updates`` returns. Picklable, as Spark Connect requires."""

    options: Mapping[str, str]

    def __call__(self, batch: DataFrame, batch_id: int) -> None:  # noqa: ARG002 -- Spark passes it
        """Append a micro-batch's rows; returns after all are acknowledged."""
        batch.write.format(FORMAT).mode("append").options(**self.options).save()

    def __repr__(self) -> str:
        return f"KafkaUpdates({', '.join(sorted(self.options))})"


def write_updates(options: Mapping[str, object] | None = None, /, **more: object) -> KafkaUpdates:
    """A function for ``foreachBatch`` that writes rows to topics, with the options of ``format("pykafka")``.

    Spark does not support ``outputMode("update")`` for a Python sink; such a query writes with ``foreachBatch``. Rows
    have the columns of the sink (``PyKafkaDataSource``). Delivery is at least once: Spark may repeat a micro-batch.
    ``more`` are further options. Raises OptionError before a query starts.

    >>> writer = write_updates({"kafka.bootstrap.servers": servers}, topic="counts")
    >>> counts = spark.readStream.format("rate").load().groupBy("value").count()
    >>> rows = counts.selectExpr("CAST(count AS STRING) AS value")
    >>> query = rows.writeStream.outputMode("update").foreachBatch(writer)  # and then start()
    """
    named = {name: str(value) for name, value in {**(options or {}), **more}.items()}
    if parse_sink_options(named).exactly_once is not None:
        raise OptionError(GUARANTEE, "cannot be exactly-once here: Spark may call the function twice for one batch")
    return KafkaUpdates(named)
