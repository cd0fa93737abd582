"""Kafka for PySpark without the JVM connector: client, records and the ``pykafka`` data source."""
