"""Values in Confluent's wire format: their header, and Avro by a schema registry (extra ``avro``)."""
