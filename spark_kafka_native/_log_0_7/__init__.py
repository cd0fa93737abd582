"""The log files of Kafka 0.7: a directory for each partition, with ``.kafka`` files (0.7 design, "Log")."""
