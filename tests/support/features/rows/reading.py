"""How a source reads: data loss, splitting, limits, transactions, triggers, and life beside Spark."""

from typing import Final

from tests.support.features.feature import Feature, Section

DATA_LOSS: Final = Section(
    "Data loss, and what `failOnDataLoss` decides",
    (
        Feature("loss.deleted", "A topic or partition deleted", "`PARTITIONS_DELETED`, or dropped"),
        Feature(
            "loss.otherTopics",
            "A topic of the checkpoint that the options do not name",
            "`PARTITIONS_DELETED` after it has logged the next batch, or dropped",
            "`KAFKA_CHECKPOINT_OF_OTHER_TOPICS` before it logs one, or dropped",
        ),
        Feature(
            "loss.noInitialOffset",
            "A new partition without a first offset",
            "`INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS`",
        ),
        Feature(
            "loss.addedNotFromZero",
            "A new partition that does not begin at 0",
            "`ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO`, for an old trimmed topic too",
        ),
        Feature(
            "loss.changed", "A log that ends before the query's offset", "`PARTITION_OFFSET_CHANGED`, or a warning"
        ),
        Feature(
            "loss.agedOut",
            "A start that aged out",
            "found by failing tasks: `COULD_NOT_READ_OFFSET_RANGE`, or on from earliest",
            "the same code, found in planning and in tasks",
        ),
        Feature("loss.gaps", "Offsets missing by compaction or transactions", "no loss"),
        Feature("loss.noDuplicates", "Reading on after a loss", "without duplicates"),
        Feature("loss.unreadable", "A server that does not answer", "a timeout, whatever `failOnDataLoss` says"),
    ),
)

SPLITTING: Final = Section(
    "Tasks",
    (
        Feature("split.one", "Without options", "a task per partition that has records"),
        Feature("split.minPartitions", "With `minPartitions`", "in proportion to offsets"),
        Feature("split.maxRecords", "With `maxRecordsPerPartition`", "even pieces, none larger"),
        Feature("split.sentinels", "With earliest and latest", "outer pieces keep them"),
        Feature(
            "split.locality",
            "Tasks on the executor that read the partition before",
            "preferred locations",
            "connections kept per server in every worker",
            "Python partitions have no locations; any worker reads any partition without a warm-up of its own",
        ),
    ),
)

LIMITS: Final = Section(
    "Triggers and limits",
    (
        Feature("rate.proportional", "Shares of a limit", "in proportion to what waits"),
        Feature("rate.minOrDelay", "`minOffsetsPerTrigger` with `maxTriggerDelay`", "whichever comes first"),
        Feature("rate.order", "A least above the most", "an error"),
        Feature("rate.once", "Trigger.Once", "ignores limits"),
        Feature(
            "rate.availableNow",
            "Trigger.AvailableNow",
            "to the ends at its first batch; ends with an error if those are lost",
        ),
        Feature(
            "rate.availableNowTail", "AvailableNow with `minOffsetsPerTrigger`", "leaves a tail unread", "reads all"
        ),
        Feature(
            "rate.continuous",
            "Continuous processing and real-time mode",
            "yes",
            "no",
            "Spark refuses both for a Python source: `asyncProgressTrackingEnabled=true` halves a micro-batch's time",
        ),
        Feature("rate.asyncProgress", "`asyncProgressTrackingEnabled`", "yes"),
    ),
)

TRANSACTIONS: Final = Section(
    "Transactional topics",
    (
        Feature("transactions.committed", "`read_committed`: committed", "read"),
        Feature("transactions.aborted", "`read_committed`: aborted", "left out"),
        Feature("transactions.open", "`read_committed`: still open", "not read, nor anything after it"),
        Feature("transactions.uncommitted", "`read_uncommitted`", "reads all but markers"),
        Feature(
            "transactions.tail", "A range that ends in what is not shown", "polls until the timeout", "ends at once"
        ),
    ),
)

RUNNING: Final = Section(
    "A query's life",
    (
        Feature(
            "run.connections", "Connections", "a pool of consumers per executor", "kept per server, in each worker"
        ),
        Feature("run.retry", "A task that is tried again", "gets a new consumer", "gets new connections"),
        Feature("run.concurrent", "Two tasks on one partition", "both read"),
        Feature(
            "run.metrics",
            "Lag in progress reports",
            "min, max and avg `OffsetsBehindLatest`",
            "by a listener",
            "Python sources have no metrics in progress reports: add the listener, which reports the lag",
        ),
        Feature("run.latestOffset", "`latestOffset` in progress reports", "yes"),
        Feature("run.rows", "`numInputRows`, `numOutputRows`", "yes"),
        Feature("run.selfUnion", "One source read twice in a query", "one place in the checkpoint"),
        Feature("run.watermark", "Watermarks on `timestamp`", "yes"),
        Feature("run.stop", "Stopping a query", "ends its tasks"),
        Feature(
            "run.name",
            "The format's name",
            "`kafka`",
            "`pykafka`",
            "Spark keeps `kafka` for the JVM connector: the format name is the one word to change",
        ),
        Feature(
            "run.sql",
            "`CREATE TABLE ... USING`, temporary views",
            "yes",
            "yes; a table's options at each use",
            "Spark gives a Python source none of a table's OPTIONS: repeat them, `FROM t WITH (...)`, or use a view",
        ),
    ),
)

SECTIONS: Final = (DATA_LOSS, SPLITTING, LIMITS, TRANSACTIONS, RUNNING)
