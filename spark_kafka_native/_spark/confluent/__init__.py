"""Values in Confluent's wire format: their header, and Avro by a schema registry (extra ``avro``).

``schema_id``, ``schema_guid``, ``payload`` and ``with_header`` are plain Spark columns and need no other package.
``spark_kafka_native._spark.confluent.avro`` has ``decode_avro`` and ``encode_avro``.
"""

from spark_kafka_native._spark.confluent.columns import payload, schema_guid, schema_id, with_header

__all__ = ["payload", "schema_guid", "schema_id", "with_header"]
