"""Exactly once into topics: the protocol, without a socket, a clock or Spark.

Every task writes in a transaction of its own and leaves it open. The driver checks that all of them live, and writes
down that they are to be committed: the decision, one transaction into a compacted topic. Only then are they committed.
Who comes after a crash reads the last decision first, and completes it; what no decision names is aborted.

`plan` goes before the tasks of a batch, `task` is what a task does, `commit` and `abort` are the driver's two ends of
a batch, `upkeep` is for commands. Each is a generator that yields what is to be asked of Kafka (`effects`) and is sent
the answers, or has KafkaErrors thrown in.
"""
