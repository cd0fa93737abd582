"""Kafka's command-line tools that start the broker, format its storage or read its files, and the KAFKA_HOME.

``python -m broker_embedded.tools`` also runs the tools of ``spark_kafka_native.tools``. The scripts of a KAFKA_HOME
(`home.py`) call it, so that programs that launch Apache Kafka, or call its scripts, work without it.
"""
