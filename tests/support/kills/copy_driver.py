"""The driver of a streaming copy from topic to topic, in a process that tests kill.

    python -m tests.support.kills.copy_driver MASTER SERVERS SOURCE TARGET CHECKPOINT NAME=VALUE ...

``NAME=VALUE`` are further options of the source, with ``sink.`` in front of the sink, on which a doom may lie (see
`tests.support.kills.sink`), or with ``spark.`` of Spark. ``numbers.per.window=100``: not the records are copied, but
what they add up to, see `summed_up`. It runs until the query fails or standard input ends. ``restarts.queries=true``: a
query that fails is started again, as a job that supervises itself does.
"""

import os
import sys
import threading
import time
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.java import QUICK_START
from tests.support.kills.sink import DoomedSource

OF_SINK = "sink."
OF_SPARK = "spark."
PER_WINDOW = "numbers.per.window"
RESTARTS = "restarts.queries"
BEFORE_RESTART_S = 1.0
LATEST_WINDOWS = 10
"""A window's row comes once a number is there that belongs so many windows further on. No number is as late."""


def main(master: str, servers: str, source: str, target: str, checkpoint: str, *options: str) -> None:
    """Copy keys and values until the end of standard input."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    named = dict(option.split("=", 1) for option in options)
    per_window = int(named.pop(PER_WINDOW, "0"))
    restarts = named.pop(RESTARTS, "false") == "true"
    for_sink = {name.removeprefix(OF_SINK): value for name, value in named.items() if name.startswith(OF_SINK)}
    for_spark: dict[str, Any] = {name: value for name, value in named.items() if name.startswith(OF_SPARK)}
    given = {name: value for name, value in named.items() if not name.startswith((OF_SINK, OF_SPARK))}
    spark = (
        SparkSession.builder.master(master)
        .appName("copy")
        .config("spark.executor.extraJavaOptions", " ".join(QUICK_START))
        .config("spark.driver.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config(map=for_spark)
        .getOrCreate()
    )
    spark.dataSource.register(DoomedSource)
    patience = {"kafka.bootstrap.servers": servers, "kafka.default.api.timeout.ms": "20000"}
    rows = (
        spark.readStream.format("pykafka")
        .options(**patience, subscribe=source, **given)
        .schema("key binary, value binary")
        .load()
    )
    if per_window:
        rows = summed_up(rows, per_window)
    writer = rows.writeStream.format("pykafka").options(**patience, topic=target, checkpointLocation=checkpoint)
    writer.options(**for_sink)
    while True:
        try:
            writer.start().awaitTermination()
            return
        except StreamingQueryException as error:
            if not restarts:
                raise
            print(error, file=sys.stderr, flush=True)
            time.sleep(BEFORE_RESTART_S)


def summed_up(rows: DataFrame, per_window: int) -> DataFrame:
    """One row for each key and window: the numbers under the key from one multiple of ``per_window`` to the next.

    Number n counts as written at second n. A window's row comes when it is over.
    """
    numbers = rows.select("key", F.col("value").cast("string").cast("long").alias("number"))
    timed = numbers.withColumn("time", F.timestamp_seconds("number"))
    windows = timed.withWatermark("time", f"{LATEST_WINDOWS * per_window} seconds")
    grouped = windows.groupBy("key", F.window("time", f"{per_window} seconds"))
    joined = F.concat_ws(",", F.transform(F.sort_array(F.collect_list("number")), lambda n: n.cast("string")))
    return grouped.agg(joined.cast("binary").alias("value")).select("key", "value")


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
