"""The jobs as programs: ``python -m spark_kafka_native.jobs.NAME --help``."""
