"""Kafka's command-line tools, as far as they are needed to run and look after a broker: same names, same options.

They stand behind the scripts of a KAFKA_HOME (`spark_kafka_native.tools.home`), so that programs that launch Apache
Kafka, or call its scripts, work without one.
"""
