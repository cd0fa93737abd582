"""Properties of Kafka's Java clients that this client does not read, and those with another default.

Together with the fields of ``ClientConfig`` these tables name every consumer, producer and admin property of Apache
Kafka 4.3. Any other name is an error.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DEPARTURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "batch.size": "Java's producer gets single records; Spark passes up to 10,000 rows at once, and larger batches "
        "take less CPU time",
        "linger.ms": "Java's producer gets single records; here rows come in large batches, and a task's flush() sends "
        "the last ones",
        "max.partition.fetch.bytes": "1048576 suits responses with many partitions; here one is read at a time, and "
        "the batch that the end of each response cuts off is sent again",
        "receive.buffer.bytes": "a fixed size turns off the system's own tuning of the TCP window",
        "send.buffer.bytes": "a fixed size turns off the system's own tuning of the TCP window",
    }
)
"""Properties whose default is not Kafka's, and why Kafka's does not fit."""

_NO_GROUP_MEMBER: Final = "this client reads assigned partitions and never joins a group"
_JVM_ONLY: Final = "it configures the Java client"
_BROKERS_CHECK: Final = "tokens are checked by brokers"
_TICKETS: Final = "tickets are looked up, or taken with the keytab, at each authentication"

WITHOUT_EFFECT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "allow.auto.create.topics": "reading never creates a topic; when a topic is written to, the broker decides",
        "auto.commit.interval.ms": "the client never commits offsets by itself",
        "auto.include.jmx.reporter": _JVM_ONLY,
        "auto.offset.reset": "readers always get the offset where they begin",
        "config.providers": _JVM_ONLY,
        "enable.auto.commit": "the client never commits offsets by itself",
        "enable.metrics.push": "no metrics are pushed",
        "exclude.internal.topics": "topics are chosen by the caller",
        "group.id": _NO_GROUP_MEMBER,
        "group.instance.id": _NO_GROUP_MEMBER,
        "group.protocol": _NO_GROUP_MEMBER,
        "group.remote.assignor": _NO_GROUP_MEMBER,
        "heartbeat.interval.ms": _NO_GROUP_MEMBER,
        "max.poll.interval.ms": _NO_GROUP_MEMBER,
        "max.poll.records": "rows leave in batches whose size the reader decides",
        "metadata.max.idle.ms": "metadata is kept for the topics in use",
        "metadata.recovery.rebootstrap.trigger.ms": "unreachable brokers always lead back to bootstrap.servers",
        "metadata.recovery.strategy": "unreachable brokers always lead back to bootstrap.servers",
        "metric.reporters": _JVM_ONLY,
        "metrics.num.samples": _JVM_ONLY,
        "metrics.recording.level": _JVM_ONLY,
        "metrics.sample.window.ms": _JVM_ONLY,
        "partition.assignment.strategy": _NO_GROUP_MEMBER,
        "partitioner.adaptive.partitioning.enable": "records without keys go to partitions in turn, a batch at a time",
        "partitioner.availability.timeout.ms": "records without keys go to partitions in turn, a batch at a time",
        "sasl.kerberos.kinit.cmd": _TICKETS,
        "sasl.kerberos.min.time.before.relogin": _TICKETS,
        "sasl.kerberos.ticket.renew.jitter": _TICKETS,
        "sasl.kerberos.ticket.renew.window.factor": _TICKETS,
        "sasl.oauthbearer.clock.skew.seconds": _BROKERS_CHECK,
        "sasl.oauthbearer.expected.audience": _BROKERS_CHECK,
        "sasl.oauthbearer.expected.issuer": _BROKERS_CHECK,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": _BROKERS_CHECK,
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _BROKERS_CHECK,
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _BROKERS_CHECK,
        "sasl.oauthbearer.jwks.endpoint.url": _BROKERS_CHECK,
        "sasl.oauthbearer.jwt.validator.class": _BROKERS_CHECK,
        "sasl.oauthbearer.scope.claim.name": _BROKERS_CHECK,
        "sasl.oauthbearer.sub.claim.name": _BROKERS_CHECK,
        "session.timeout.ms": _NO_GROUP_MEMBER,
        "share.acknowledgement.mode": _NO_GROUP_MEMBER,
        "share.acquire.mode": _NO_GROUP_MEMBER,
        "ssl.keymanager.algorithm": _JVM_ONLY,
        "ssl.secure.random.implementation": _JVM_ONLY,
        "ssl.trustmanager.algorithm": _JVM_ONLY,
    }
)
"""Properties of the Java clients that are accepted and change nothing here, and why."""

_NO_ASSERTIONS: Final = (
    "token requests have no signed assertions; a Python function in sasl.login.callback.handler.class can do it"
)

REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bootstrap.controllers": "controllers are not spoken to; give brokers in bootstrap.servers",
        "interceptor.classes": "Java interceptors cannot run here",
        "key.deserializer": "keys are always read as binary",
        "key.serializer": "keys are always written as they are, binary",
        "sasl.login.class": "Java classes cannot log in here",
        "sasl.oauthbearer.assertion.algorithm": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.claim.aud": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.claim.exp.seconds": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.claim.iss": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.claim.jti.include": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.claim.nbf.seconds": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.claim.sub": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.file": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.private.key.file": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.private.key.passphrase": _NO_ASSERTIONS,
        "sasl.oauthbearer.assertion.template.file": _NO_ASSERTIONS,
        "sasl.oauthbearer.jwt.retriever.class": "Java classes cannot fetch tokens here; "
        "sasl.login.callback.handler.class takes a Python function",
        "security.providers": "security providers are Java classes",
        "ssl.engine.factory.class": "Java classes cannot make connections here",
        "ssl.provider": "security providers are Java classes",
        "transaction.two.phase.commit.enable": "prepared transactions end with their timeout (no KIP-939)",
        "value.deserializer": "values are always read as binary",
        "value.serializer": "values are always written as they are, binary",
    }
)
"""Properties of the Java clients that are errors here, and why."""
