"""A Kafka-compatible broker with an on-disk log store, for demos, tests and small deployments."""
