"""Exactly once into topics: the protocol, without a socket, a clock or Spark.

Every task writes in its own transaction and leaves it open. The driver checks that all transactions are still open, and
writes the decision, one transaction into a compacted topic. Then the driver commits the tasks' transactions. After a
crash the next driver reads the last decision and completes it. A transaction that no decision names is aborted.

`plan` runs before the tasks of a batch, `task` in each task, `commit` or `abort` after them, `commands` for users. Each
is a generator that yields requests to Kafka (`effects`). The results are sent in, and KafkaErrors are thrown in.
"""
