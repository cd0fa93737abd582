"""The batch load: topics into files, exactly once, or into any other Spark format, at least once.

``load_dataframe(spark, target)`` reads the loaded records; see ``jobs/batch_reload.py --help``.
"""

from spark_kafka_native.jobs.batch_reload.reading import load_dataframe

__all__ = ["load_dataframe"]
