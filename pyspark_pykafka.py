"""PySpark discovers this module by its name: format("pykafka") works without registering it."""

from spark_kafka_native._spark.datasource import PyKafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
