"""The source: columns, options, positions and client parameters."""

from typing import Final

from tests.support.features.feature import Feature, Section

COLUMNS: Final = Section(
    "Columns of the source",
    (
        Feature("column.key", "`key`", "binary, null where the record has none"),
        Feature("column.value", "`value`", "binary, null for a tombstone"),
        Feature("column.topic", "`topic`", "string"),
        Feature("column.partition", "`partition`", "int"),
        Feature("column.offset", "`offset`", "bigint"),
        Feature("column.timestamp", "`timestamp`", "record time in ms; none is one ms before 1970"),
        Feature("column.timestampType", "`timestampType`", "-1 none, 0 CreateTime, 1 LogAppendTime"),
        Feature(
            "column.headers",
            "`headers`",
            "array of struct, with `includeHeaders`; null without headers; order and duplicates kept",
        ),
    ),
)

REQUIRED: Final = Section(
    "Required source options",
    (
        Feature("source.options", "Names of options", "read in any case", "the same; an unknown name is an error"),
        Feature("source.bootstrapServers", "`kafka.bootstrap.servers`", "required"),
        Feature("source.strategy", "One of the three below", "none or several: an error"),
        Feature(
            "source.assign",
            "`assign`",
            "JSON of partitions; those that do not exist are left out",
            "the same, and says so",
        ),
        Feature("source.subscribe", "`subscribe`", "topics with commas; a missing one fails"),
        Feature(
            "source.subscribePattern",
            "`subscribePattern`",
            "a Java expression, searched for in names; internal topics left out",
            "the same; what Python cannot do (such as `\\X`) is refused and named",
        ),
    ),
)

OPTIONAL: Final = Section(
    "Optional source options",
    (
        Feature("source.startingTimestamp", "`startingTimestamp`", "epoch ms for all partitions; goes first"),
        Feature("source.startingOffsetsByTimestamp", "`startingOffsetsByTimestamp`", "JSON of epoch ms; goes second"),
        Feature(
            "source.startingOffsets",
            "`startingOffsets`",
            "earliest, latest or JSON with -1 and -2; stream `latest`, batch `earliest`",
        ),
        Feature(
            "source.endingTimestamp",
            "`endingTimestamp`",
            "epoch ms for all partitions; ignored in a stream",
            "the same; an error in a stream",
        ),
        Feature("source.endingOffsetsByTimestamp", "`endingOffsetsByTimestamp`", "JSON of epoch ms; batch only"),
        Feature("source.endingOffsets", "`endingOffsets`", "latest or JSON with -1; batch only"),
        Feature(
            "source.startingOffsetsByTimestampStrategy",
            "`startingOffsetsByTimestampStrategy`",
            "`error` or `latest` where no record is late enough",
        ),
        Feature("source.failOnDataLoss", "`failOnDataLoss`", "default true"),
        Feature(
            "source.pollTimeoutMs",
            "`kafkaConsumer.pollTimeoutMs`",
            "how long a task waits for records, by default 120 s",
            "the same for a server that does not answer; nothing to read is known without waiting",
        ),
        Feature("source.numRetries", "`fetchOffset.numRetries`", "3 attempts", "3 further attempts"),
        Feature("source.retryIntervalMs", "`fetchOffset.retryIntervalMs`", "1000"),
        Feature(
            "source.maxOffsetsPerTrigger",
            "`maxOffsetsPerTrigger`",
            "not validated: 0 makes no progress; a record per partition more than asked",
            "at least 1, exact",
        ),
        Feature("source.minOffsetsPerTrigger", "`minOffsetsPerTrigger`", "waits for that many offsets"),
        Feature("source.maxTriggerDelay", "`maxTriggerDelay`", "15m; ends that wait"),
        Feature("source.minPartitions", "`minPartitions`", "splits large partitions; at least 1"),
        Feature(
            "source.maxRecordsPerPartition",
            "`maxRecordsPerPartition`",
            "at least 1; without effect in batch from earliest to latest",
            "at least 1, in batch too",
        ),
        Feature(
            "source.groupIdPrefix",
            "`groupIdPrefix`",
            "prefix of generated group ids",
            "accepted with a warning and without effect, because the source joins no group",
        ),
        Feature(
            "source.groupId",
            "`kafka.group.id`",
            "used as given, with a warning; never commits",
            "the same; commits on demand",
        ),
        Feature("source.includeHeaders", "`includeHeaders`", "default false; adds the column `headers`"),
        Feature(
            "source.isolationLevel", "`kafka.isolation.level`", "`read_uncommitted` or `read_committed`; else an error"
        ),
    ),
)

CLIENT: Final = Section(
    "Kafka client parameters",
    (
        Feature(
            "client.passThrough", "`kafka.*`", "passed on to the Java client", "every name of the Java clients is known"
        ),
        Feature("client.auto.offset.reset", "`kafka.auto.offset.reset`", "refused in a source"),
        Feature("client.deserializers", "`kafka.key.deserializer`, `kafka.value.deserializer`", "refused in a source"),
        Feature("client.enable.auto.commit", "`kafka.enable.auto.commit`", "refused in a source"),
        Feature("client.interceptor.classes", "`kafka.interceptor.classes`", "refused in a source"),
        Feature("client.serializers", "`kafka.key.serializer`, `kafka.value.serializer`", "refused in a sink"),
        Feature(
            "client.table",
            "Every consumer, producer and admin config of the Java clients",
            "honoured",
            "honoured, accepted without effect (with one warning) or refused, in one table compared with the jar",
        ),
        Feature("client.unknown", "An unknown name", "a warning in a log", "an error with the nearest name"),
        Feature("client.rack", "`kafka.client.rack`", "reads from the nearest replica (KIP-392)"),
        Feature("client.leaderEpochs", "Truncated logs (KIP-320)", "recognised by leader epoch"),
        Feature(
            "client.oldBrokers",
            "Brokers",
            "from 2.1 on",
            "reads from 0.10 on, writes from 0.11 on; message formats v0 and v1",
        ),
    ),
)

POSITIONS: Final = Section(
    "Offsets and positions",
    (
        Feature("offsets.json", "Offsets in a checkpoint", '`{"topic":{"0":123}}`, the next offset to read'),
        Feature(
            "offsets.initial",
            "First offsets of a stream",
            "kept in `sources/0/0`",
            "kept by an empty first batch, where needed",
        ),
        Feature("offsets.special", "-1 and -2 in a batch", "bound in the task"),
        Feature(
            "offsets.lateBinding", "A DataFrame used again", "reads what came in between", "the same; partitions stay"
        ),
        Feature("offsets.byTimestamp", "A time", "the first record of it or later; none: the end, or an error"),
        Feature(
            "offsets.sets",
            "Partitions named in JSON",
            "must be those that are read",
            "the same, unless `startingOffsetsDefault` is given",
        ),
        Feature("offsets.order", "A start after its end", "an error, before and after look-up"),
        Feature("offsets.backwards", "An end that went back", "looked up again `fetchOffset.numRetries` times"),
        Feature("offsets.newPartitions", "Partitions found while a stream runs", "start at earliest"),
        Feature("offsets.empty", "No partitions for a moment", "the position stays as it was"),
    ),
)

SECTIONS: Final = (COLUMNS, REQUIRED, OPTIONAL, CLIENT, POSITIONS)
