"""The public names for type checkers."""

from spark_kafka_native._java import JavaMissing as JavaMissing
from spark_kafka_native._java import ensure_java as ensure_java
from spark_kafka_native._jobs.batch_reload.errors import ReloadError as ReloadError
from spark_kafka_native._jobs.batch_reload.reading import load_dataframe as load_dataframe
from spark_kafka_native._log_0_7.files import LogFilesError as LogFilesError
from spark_kafka_native._spark.datasource import PyKafkaDataSource as PyKafkaDataSource
from spark_kafka_native._spark.datasource import register as register
from spark_kafka_native._spark.errors import OptionError as OptionError
from spark_kafka_native._spark.log_0_7 import read_log_0_7 as read_log_0_7
from spark_kafka_native._spark.progress.listener import LagListener as LagListener
from spark_kafka_native._spark.progress.report import Lag as Lag
from spark_kafka_native._spark.progress.report import QueryReport as QueryReport
from spark_kafka_native._spark.progress.report import count_bytes as count_bytes
from spark_kafka_native._spark.progress.view import QueryState as QueryState
from spark_kafka_native._spark.progress.view import watch as watch
from spark_kafka_native._spark.sink.update_mode import KafkaUpdates as KafkaUpdates
from spark_kafka_native._spark.sink.update_mode import write_updates as write_updates
from spark_kafka_native._spark.worker_python import worker_python as worker_python

__version__: str
__all__: list[str]
