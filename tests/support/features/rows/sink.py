"""What a sink takes and does, and the security of both directions."""

from typing import Final

from tests.support.features.feature import Feature, Section

_NONE: Final = "no"

SINK: Final = Section(
    "Sink",
    (
        Feature("sink.value", "`value`", "string or binary, required; null is a tombstone"),
        Feature("sink.key", "`key`", "string or binary, null without"),
        Feature("sink.topicColumn", "`topic`", "string, required without the option; null is an error"),
        Feature("sink.headers", "`headers`", "array of struct; a null key is an error"),
        Feature("sink.partition", "`partition`", "int; null leaves it to the partitioner"),
        Feature("sink.extraColumns", "Other columns", "ignored"),
        Feature("sink.types", "Columns of other types", "an error that names the column"),
        Feature("sink.bootstrapServers", "`kafka.bootstrap.servers`", "required"),
        Feature("sink.topic", "Option `topic`", "goes before the column"),
        Feature("sink.includeHeaders", "Option `includeHeaders`", "without effect"),
        Feature("sink.client", "`kafka.*`", "producer configs", "the same, by one table"),
        Feature("sink.partitioner", "Partition of a row", "column, `kafka.partitioner.class`, murmur2 of the key"),
        Feature("sink.missingTopic", "A topic that does not exist", "fails after `kafka.max.block.ms`"),
        Feature("sink.batch", 'Batch, `mode("append")`', "yes"),
        Feature(
            "sink.saveModes",
            "Batch, other modes",
            "without a mode: as append; `overwrite` and `ignore` refused",
            "`append` only",
            'Spark refuses a Python sink without a mode: say `.mode("append")`',
        ),
        Feature("sink.append", 'Stream, `outputMode("append")`', "yes"),
        Feature("sink.complete", 'Stream, `outputMode("complete")`', "each result in full"),
        Feature(
            "sink.update",
            'Stream, `outputMode("update")`',
            "changed rows",
            "by `foreachBatch` with `write_updates`",
            "Spark refuses update mode for a Python sink: `foreachBatch(write_updates(...))` writes the same rows",
        ),
        Feature("sink.errors", "Errors of asynchronous sends", "fail the task"),
        Feature(
            "sink.delivery",
            "Delivery",
            "at least once",
            "at least once, retries of a send not repeated (idempotent); or exactly once",
        ),
    ),
)

SINK_MORE: Final = Section(
    "Sink, beyond the JVM connector",
    (
        Feature("sink.timestamp", "Column `timestamp`", "ignored", "with `includeTimestamp`, the record's time"),
        Feature("sink.headersMap", "`headers` as a map", "refused", "map of string to string or binary"),
        Feature("sink.partitionerChoice", "Partitioners", "Java classes", "by name"),
        Feature(
            "sink.oldPartitioners",
            "Partitioners of Kafka 0.7 and 0.8.2",
            _NONE,
            "`string_hash`, `bytes_hash`",
        ),
        Feature(
            "sink.lookup",
            "More partitions without moving most keys",
            _NONE,
            "`partitioner=lookup` with `lookupTable`, and `pykafka lookup-table`",
        ),
        Feature(
            "sink.recordSize", "A record too large", "fails after it was sent", "checked before sending, and named"
        ),
        Feature("sink.exactlyOnce", "Exactly once, streams", _NONE, "with `delivery.guarantee=exactly-once`"),
        Feature("sink.exactlyOnceBatch", "Batches that are there whole or not at all", _NONE, "the same option"),
        Feature("sink.exactlyOnceOptions", "Times that do not fit together", "-", "refused before the query starts"),
        Feature("sink.exactlyOnceKills", "Killed between decision and commit", "-", "the next start commits the rest"),
        Feature("sink.exactlyOnceRetries", "Tasks that are run again", "write their rows again", "write them once"),
        Feature("sink.exactlyOnceRepair", "What an abandoned query left", "-", "`exactly-once status`, `recover`, ..."),
    ),
)

SECURITY: Final = Section(
    "Security",
    (
        Feature("security.tlsPem", "TLS with PEM", "text or files"),
        Feature("security.tlsStores", "TLS with JKS and PKCS12", "yes"),
        Feature("security.tlsHostname", "Host names of servers", "checked by default"),
        Feature("security.tlsClient", "Certificates of clients", "yes"),
        Feature("security.jaas", "`kafka.sasl.jaas.config`", "yes"),
        Feature("security.plain", "SASL PLAIN", "yes"),
        Feature("security.scram", "SASL SCRAM-SHA-256 and -512", "yes"),
        Feature("security.oauth", "SASL OAUTHBEARER", "Java classes", "a token by URL or by a Python callable"),
        Feature("security.msk", "AWS MSK IAM", "a Java class to add", "by its published signer, as an extra"),
        Feature("security.gssapi", "SASL GSSAPI (Kerberos)", "yes", "as an extra"),
        Feature(
            "security.delegationTokens",
            "Delegation tokens",
            "obtained by Spark: `spark.kafka.clusters.*`",
            "used as SCRAM credentials",
            'Spark gives a Python worker no tokens: pass one in `kafka.sasl.jaas.config` with `tokenauth="true"`',
        ),
        Feature(
            "security.secrets", "Secrets", "redacted in logs", "in no plan, log, progress, exception or pickled error"
        ),
    ),
)

SECTIONS: Final = (SINK, SINK_MORE, SECURITY)
