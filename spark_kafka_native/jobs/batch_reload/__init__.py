"""The batch load: topics into files, exactly once, or into any other Spark format, at least once.

``load_dataframe(spark, target)`` reads what has been loaded; ``jobs/batch_reload.py --help`` tells the rest.
"""

from spark_kafka_native.jobs.batch_reload.reading import load_dataframe

__all__ = ["load_dataframe"]
