"""Where the bundled broker is otherwise than Apache Kafka 4.3, on purpose, each with the reason.

Tests that ask both the same questions (`tests.support.requests.same_responses`) fail for any other difference, and for
a response listed here that is no difference any more. Keys of ``RESPONSES`` are requests as these tests name them, with
``*`` for anything. ``LINES`` and what follows them are of the tests that compare what Kafka's tools print.
"""

import re
from collections.abc import Mapping
from typing import Final

_OPERATION = "Kafka has UNKNOWN_SERVER_ERROR for an operation that does not exist; INVALID_REQUEST says what is wrong"
_SEGMENTS = "Kafka 4 wants segments of 1 MiB at least; tests of retention and compaction want small ones"
_AT_START_OF_LISTENER = "listeners, their mechanisms and their credentials are set at the start"
_CLASS = "there are no classes, and no listener has TLS"
_FEATURES = "levels of features are those of the release that the broker passes for (as.version)"

RESPONSES: Final[Mapping[str, str]] = {
    "IncrementalAlterConfigs v1 2 't' (('retention.ms', 9, '1'),) 1": _OPERATION,
    "IncrementalAlterConfigs v1 2 't' (('segment.bytes', 0, '100'),) 1": _SEGMENTS,
    "IncrementalAlterConfigs v1 4 '1' (('sasl.enabled.mechanisms', 0, ''),) 1": _AT_START_OF_LISTENER,
    "IncrementalAlterConfigs v1 4 '1' (('sasl.jaas.config', 0, 'x'),) 1": _AT_START_OF_LISTENER,
    "IncrementalAlterConfigs v1 4 '*' (('ssl.engine.factory.class', 0, 'x'),) 1": _CLASS,
    "IncrementalAlterConfigs v1 4 '1' (('listener.name.plaintext.*', 0, '5'),) 1": _AT_START_OF_LISTENER,
    "UpdateFeatures v* group.version to 0, type 2": _FEATURES,
    "UpdateFeatures v* kraft.version to 1, type 1": "the quorum has a fixed voter: AddRaftVoter is not served",
    "UpdateFeatures v* share.version to 1, type 1": "share groups are not served",
    "UpdateFeatures v* streams.version to 1, type 1": "streams groups are not served",
}
"""Answers to questions."""

_LIST = "a list for Kafka, text with commas here: it is read once, at the start"
_AT_START = "listeners are opened at the start here"
_OF_TLS = (
    "ssl.key.password",
    *(f"ssl.keystore.{name}" for name in ("certificate.chain", "key", "location", "password", "type")),
    *(f"ssl.truststore.{name}" for name in ("certificates", "location", "password", "type")),
)

SETTINGS: Final[Mapping[str, str]] = {
    "advertised.listeners": _LIST,
    "listener.security.protocol.map": _AT_START,
    "listeners": _AT_START + ", by default on this machine only",
    "log.dirs": _LIST,
    "log.flush.scheduler.interval.ms": "what looks for logs to flush runs here even if no topic asks for it",
    "max.connections.per.ip.overrides": "a list here, which it is for Kafka too, but for its type",
    "node.id": "Kafka has no default, because it has no single broker that needs no settings",
    "offsets.topic.replication.factor": "there is one broker",
    "queued.max.request.bytes": "the memory for requests is bounded here unless it is asked otherwise",
    "sasl.enabled.mechanisms": "there is no GSSAPI, and mechanisms are set at the start",
    "socket.receive.buffer.bytes": "the system's own choice is better on every machine of today",
    "socket.send.buffer.bytes": "the system's own choice is better on every machine of today",
    "transaction.state.log.min.isr": "there is one broker",
    "transaction.state.log.replication.factor": "there is one broker",
    **dict.fromkeys(_OF_TLS, "there is no TLS, so key and trust stores cannot change at run time"),
    "sasl.jaas.config": _AT_START_OF_LISTENER,
}
"""Settings that both have and that are not the same in type, default or being changeable at run time."""

_INTERNAL = "Kafka has it too, and does not tell"
_SETTINGS_OF_ZOOKEEPER = (
    "zookeeper.clientCnxnSocket",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.max.in.flight.requests",
    "zookeeper.metadata.migration.enable",
    "zookeeper.session.timeout.ms",
    "zookeeper.set.acl",
    "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.client.enable",
    "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.ocsp.enable",
    "zookeeper.ssl.protocol",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.truststore.type",
    "zookeeper.sync.time.ms",
)

OUR_SETTINGS: Final[Mapping[str, str]] = {
    "add.scram": "an option of kafka-storage.sh in Kafka",
    "as.version": "Kafka is the release that it is",
    "cluster.id": "an option of kafka-storage.sh in Kafka",
    "enable.zookeeper": "a setting of Kafka 0.7",
    "group.consumer.regex.refresh.interval.ms": _INTERNAL,
    "metrics.listener": "Kafka has JMX",
    "producer.id.expiration.check.interval.ms": _INTERNAL,
    "status.page": "Kafka has none",
    "topic.partition.count.map": "a setting of Kafka 0.7",
    "transaction.version": "an option of kafka-storage.sh in Kafka",
    **dict.fromkeys(_SETTINGS_OF_ZOOKEEPER, "Kafka 4 does not work with ZooKeeper"),
}
"""Settings that only the bundled broker has."""

_OF_SHARE_GROUPS = (
    "share.assignment.interval.ms",
    "share.auto.offset.reset",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.isolation.level",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.renew.acknowledge.enable",
    "share.session.timeout.ms",
)
_OF_STREAMS_GROUPS = (
    "streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas",
    "streams.session.timeout.ms",
)

THEIR_SETTINGS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_OF_SHARE_GROUPS, "share groups are not served"),
    **dict.fromkeys(_OF_STREAMS_GROUPS, "streams groups are not served"),
}
"""Settings, all of groups, that only Apache Kafka has."""

# --- what tools print

LINES: Final = (
    # Error codes are compared; error messages are not.
    (re.compile(r"(org\.apache\.kafka\.common\.errors\.\w+): .*"), r"\1"),
    (re.compile(r"(Error while executing topic command : ).*"), r"\1"),
)
"""Patterns of a line that a tool prints, and what to compare instead."""

APIS_WE_LACK: Final[Mapping[str, str]] = {
    "CreateDelegationToken": "there are no delegation tokens",
    "RenewDelegationToken": "there are no delegation tokens",
    "ExpireDelegationToken": "there are no delegation tokens",
    "DescribeDelegationToken": "there are no delegation tokens",
    "ShareGroupHeartbeat": "there are no share groups",
    "ShareGroupDescribe": "there are no share groups",
    "ShareFetch": "there are no share groups",
    "ShareAcknowledge": "there are no share groups",
    "InitializeShareGroupState": "there are no share groups",
    "ReadShareGroupState": "there are no share groups",
    "WriteShareGroupState": "there are no share groups",
    "DeleteShareGroupState": "there are no share groups",
    "ReadShareGroupStateSummary": "there are no share groups",
    "DescribeShareGroupOffsets": "there are no share groups",
    "AlterShareGroupOffsets": "there are no share groups",
    "DeleteShareGroupOffsets": "there are no share groups",
    "StreamsGroupHeartbeat": "there are no streams groups",
    "StreamsGroupDescribe": "there are no streams groups",
    "AddRaftVoter": "there is no KRaft quorum to join",
    "RemoveRaftVoter": "there is no KRaft quorum to leave",
}
"""What a client finds missing, and why. Everything else has exactly the versions of Apache Kafka."""
