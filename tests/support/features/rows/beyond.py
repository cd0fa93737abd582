"""Where the JVM connector is weak, what it cannot do, and the job that is built on it."""

from typing import Final

from tests.support.features.feature import Feature, Section

_NONE: Final = "no"

BETTER: Final = Section(
    "Where the JVM connector is weak",
    (
        Feature("better.agedOut", "Aged-out offsets", "found by failing tasks", "found in planning"),
        Feature(
            "better.recreated", "A topic deleted and made again", "seen only if it is shorter", "seen by its topic id"
        ),
        Feature(
            "better.recreatedAcrossRestarts",
            "The same while the query was down",
            "seen only if it is shorter",
            "seen where progress is committed to a group, which keeps the id",
        ),
        Feature("better.exactLimits", "Limits", "overshoot, are not validated", "never overshoot, are validated"),
        Feature("better.noTail", "AvailableNow", "may leave a tail", "leaves none"),
        Feature("better.batchMaxRecords", "`maxRecordsPerPartition` in batch", "without effect", "works"),
        Feature("better.idle", "An idle query", "asks the cluster at every poll", "a few requests per second"),
        Feature("better.planning", "Planning", "several look-ups of all partitions", "one ListOffsets per server"),
        Feature("better.noWait", "A read that ends in aborted or compacted records", "waits for more", "ends at once"),
    ),
)

MORE: Final = Section(
    "What the JVM connector cannot do",
    (
        Feature("more.resumeJvm", "Resume a checkpoint of the JVM connector", "its own", "by changing the format name"),
        Feature("more.resumeByJvm", "Go back to the JVM connector", "its own", "by changing the format name"),
        Feature(
            "more.jvmCheckpoint",
            "Resume one whose first batch was not committed",
            "its own",
            "with `jvmCheckpoint`; without it the query fails and says so",
        ),
        Feature("more.commitToGroup", "Progress committed to a consumer group", _NONE, "with `commitOffsetsToGroup`"),
        Feature("more.startCommitted", "Start at a group's commits", _NONE, "`startingOffsets=committed`"),
        Feature("more.topicOffsets", "`startingOffsets` for whole topics", _NONE, '`{"topicA":"earliest"}`'),
        Feature(
            "more.partialOffsets",
            "`startingOffsets` for some partitions",
            "must list all",
            "with `startingOffsetsDefault`",
        ),
        Feature("more.relativeTimes", "Relative times", _NONE, "`-10m`"),
        Feature("more.lastN", "The last records of each partition", _NONE, "`latest-100`"),
        Feature(
            "more.maxPartitions",
            "Several partitions in one task",
            "a task for each",
            "with `maxPartitions`, one Fetch for all that a broker leads",
        ),
        Feature(
            "more.bindOffsets",
            "The same rows for every action and every attempt of a task",
            "`latest` is looked up by each attempt",
            "with `bindOffsets=load`",
        ),
        Feature("more.projection", "Columns by `.schema(...)`", "refused", "reads just those"),
        Feature("more.strings", "`string` columns", "to cast", "by `.schema(...)`, with `invalidUtf8` for bad bytes"),
        Feature(
            "more.filters", "Filters on partition, offset, timestamp", "read all", "pushed down by `filterPushdown`"
        ),
        Feature("more.listener", "Lag, rows and bytes per second", "in progress reports, lag only", "a listener"),
        Feature("more.progressView", "A view of running queries", "Spark's UI", "in terminals and notebooks"),
        Feature(
            "more.wireFormat", "Values in Confluent's wire format", _NONE, "header stripped, schema id as a column"
        ),
        Feature("more.avro", "Avro by a schema registry", _NONE, "as an extra, or by a given schema"),
        Feature("more.forwardedPort", "Brokers at a forwarded port", _NONE, "`kafka.broker.addresses=bootstrap`"),
        Feature("more.connect", "Spark Connect", "a jar on the server", "a Python package on the server"),
    ),
)

RELOAD: Final = Section(
    "jobs/batch_reload.py",
    (
        Feature("reload.ranges", "Ranges", "-", "offsets, times, or since the last run"),
        Feature("reload.tasks", "Tasks", "-", "one per partition, or finer"),
        Feature("reload.exactlyOnce", "File formats", "-", "loaded exactly once: a directory per load, one manifest"),
        Feature("reload.otherFormats", "Other formats", "-", "at least once, with a load id column"),
        Feature("reload.from", "`--from`", "-", "loads again from a point in time, into a new version"),
        Feature("reload.dryRun", "`--dry-run`", "-", "prints the plan with counts"),
        Feature("reload.progress", "Progress", "-", "a bar"),
        Feature("reload.verify", "`--verify`", "-", "checks the manifest against the topic"),
        Feature("reload.kills", "Killed at any step", "-", "no duplicate, no gap"),
    ),
)

SECTIONS: Final = (BETTER, MORE, RELOAD)
