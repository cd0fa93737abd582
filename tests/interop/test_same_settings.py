"""Settings: the bundled broker answers as Apache Kafka does where they are changed, and has them with its defaults."""

from typing import Any

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.messages import describe_configs as describing
from spark_kafka_native._protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.broker.configs import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    change_request,
    replace_request,
)
from tests.support.broker.driver import batch, produce_request
from tests.support.requests.broker_differences import OUR_SETTINGS, SETTINGS, THEIR_SETTINGS
from tests.support.requests.conversation import Conversation
from tests.support.requests.raw_client import RawClient
from tests.support.requests.same_responses import compare_brokers
from tests.support.servers.apache_kafka import ApacheKafka

pytestmark = pytest.mark.interop

_DEFAULT = 5


def change(broker: Conversation, kind: int, name: str, *operations: tuple[str, int, str | None], **others: Any) -> None:
    """Ask to change settings of one resource, ``times`` times in the request."""
    times, note = others.pop("times", 1), others.pop("note", "")
    request = change_request(kind, name, *operations, times=times, **others)
    broker.ask(request, 1, f"{kind} {broker.plain(name)!r} {operations} {note}{times}")


def replace(broker: Conversation, kind: int, name: str, *pairs: tuple[str, str | None], **others: Any) -> None:
    """Ask to replace all settings of one resource."""
    request = replace_request(kind, name, *pairs, **others)
    broker.ask(request, 2, f"{kind} {broker.plain(name)!r} {pairs}")


def tell(broker: Conversation, kind: int, name: str, *keys: str, note: str = "") -> None:
    """Ask for settings, and remember all that is said of them but the documentation."""
    resource = describing.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    request = describing.DescribeConfigsRequest(resources=(resource,), include_synonyms=True)

    def read() -> list[object]:
        (result,) = broker.response(request, 4).results
        return [result.error_code, *(_said(config) for config in sorted(result.configs, key=lambda each: each.name))]

    broker.look(f"DescribeConfigs {kind} {broker.plain(name)!r} {keys} {note}".strip(), read)


def _said(config: describing.DescribeConfigsResourceResult) -> object:
    synonyms = [(item.name, item.value, item.source) for item in config.synonyms]
    flags = config.read_only, config.is_sensitive
    return config.name, config.value, config.config_source, flags, config.config_type, synonyms


@compare_brokers
def test_settings_of_a_topic_are_changed(broker: Conversation) -> None:
    broker.create("t")
    name = broker.topic("t")
    for operations in (
        (("retention.ms", SET, "5000"),),
        (("retention.ms", DELETE, None),),
        (("retention.ms", DELETE, "x"), ("retention.bytes", DELETE, None), ("no.such", DELETE, None)),
        (("no.such", SET, "1"),),
        (("no.such", APPEND, "1"),),
        (("retention.ms", SET, "x"),),
        (("retention.ms", SET, "-2"),),
        (("retention.ms", SET, None),),
        (("retention.ms", SET, ""),),
        (("retention.ms", APPEND, "1"),),
        (("retention.ms", SUBTRACT, "1"),),
        (("retention.ms", 9, "1"),),
        (("cleanup.policy", APPEND, "compact"),),
        (("cleanup.policy", SUBTRACT, "delete"),),
        (("cleanup.policy", SUBTRACT, "compact"),),
        (("cleanup.policy", SET, ""),),
        (("cleanup.policy", SET, "delete,delete"),),
        (("cleanup.policy", APPEND, "burn"),),
        (("cleanup.policy", SUBTRACT, "burn"),),
        (("cleanup.policy", APPEND, None),),
        (("cleanup.policy", DELETE, None),),
        (("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        (("retention.ms", SET, "1"), ("segment.ms", SET, "x")),
        (("segment.bytes", SET, "100"),),
        (("min.insync.replicas", SET, "0"),),
        (("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")),
        (),
    ):
        change(broker, TOPIC, name, *operations)
        tell(broker, TOPIC, name, "retention.ms", "cleanup.policy", note=f"after {operations}")
    change(broker, TOPIC, name, ("retention.ms", SET, "1"), times=2)
    change(broker, TOPIC, name, ("retention.ms", SET, "77"), validate_only=True, note="only checked ")
    change(broker, TOPIC, name, ("retention.ms", SET, "x"), validate_only=True, note="only checked ")
    tell(broker, TOPIC, name, "retention.ms", note="after checks")
    for missing in (broker.topic("missing"), "", "a/b"):
        change(broker, TOPIC, missing, ("retention.ms", SET, "1"))
        change(broker, TOPIC, missing, ("retention.ms", SET, "x"))
        change(broker, TOPIC, missing)
        tell(broker, TOPIC, missing)


@compare_brokers
def test_settings_of_a_topic_are_replaced(broker: Conversation) -> None:
    broker.create("t")
    name = broker.topic("t")
    for pairs in (
        (("retention.ms", "5000"), ("cleanup.policy", "compact")),
        (("retention.ms", "6000"),),
        (("retention.ms", "x"),),
        (("retention.ms", None),),
        (("no.such", "1"),),
        (("retention.ms", "1"), ("retention.ms", "2")),
        (),
    ):
        replace(broker, TOPIC, name, *pairs)
        tell(broker, TOPIC, name, "retention.ms", "cleanup.policy", note=f"after {pairs}")
    for missing in (broker.topic("missing"), "", "a/b"):
        replace(broker, TOPIC, missing, ("retention.ms", "1"))
    replace(broker, TOPIC, name, ("retention.ms", "1"), validate_only=True)
    for kind in (LOGGER, METRICS, GROUP, 64, 0):
        replace(broker, kind, "1", ("x", "1"))
    replace(broker, BROKER, "1", ("num.partitions", "5"))
    replace(broker, BROKER, "3")


@compare_brokers
def test_settings_of_the_broker_are_changed(broker: Conversation) -> None:
    broker.create("t")
    for name, value in (("", "5000"), ("1", "6000")):
        change(broker, BROKER, name, ("log.retention.ms", SET, value))
        tell(broker, BROKER, "1", "log.retention.ms", note=f"after {name!r}")
        tell(broker, BROKER, "", "log.retention.ms", note=f"after {name!r}")
        tell(broker, TOPIC, broker.topic("t"), "retention.ms", note=f"after {name!r}")
    for name in ("", "1"):
        change(broker, BROKER, name, ("log.retention.ms", DELETE, None))
    for operations in (
        (("num.partitions", SET, "3"),),
        (("num.partitions", DELETE, None),),
        (("node.id", SET, "1"),),
        (("log.retention.hours", SET, "1"),),
        (("advertised.listeners", SET, "PLAINTEXT://h:9"),),
        (("log.retention.ms", SET, "x"),),
        (("log.retention.ms", SET, None),),
        (("log.retention.ms", APPEND, "1"),),
        (("no.such", APPEND, "1"),),
        (("no.such", DELETE, None),),
        (("max.connections", SET, "-1"),),
    ):
        change(broker, BROKER, "1", *operations)
    change(broker, BROKER, "", ("num.partitions", SET, "3"))
    change(broker, BROKER, "1", ("log.retention.ms", SET, "9"), validate_only=True, note="only checked ")
    change(broker, BROKER, "1", ("log.retention.ms", SET, "9"), times=2)
    for name in ("2", "x", "-1"):
        change(broker, BROKER, name, ("log.retention.ms", SET, "1"))
        tell(broker, BROKER, name)
    tell(broker, BROKER, "1", "log.retention.ms", note="in the end")
    change(broker, BROKER, "1", ("no.such", SET, "1"))
    change(broker, BROKER, "1", ("no.such", DELETE, None), note="again ")


@compare_brokers
def test_settings_without_effect_here_are_changed_as_in_kafka(broker: Conversation) -> None:
    for name, key, value in (
        ("1", "sasl.kerberos.min.time.before.relogin", "5000"),
        ("", "sasl.kerberos.min.time.before.relogin", "5000"),
        ("1", "sasl.kerberos.min.time.before.relogin", "x"),
        ("1", "ssl.client.auth", "required"),
        ("1", "ssl.client.auth", "maybe"),
        ("", "background.threads", "3"),
        ("1", "background.threads", "9"),
        ("1", "background.threads", "0"),
        ("1", "num.io.threads", "4"),
        ("1", "num.network.threads", "8"),
        ("1", "num.replica.fetchers", "2"),
        ("1", "num.recovery.threads.per.data.dir", "4"),
        ("", "leader.replication.throttled.rate", "1000"),
        ("1", "leader.replication.throttled.rate", "-1"),
        ("1", "log.cleaner.backoff.ms", "20000"),
        ("1", "log.cleaner.backoff.ms", "-1"),
        ("1", "remote.fetch.max.wait.ms", "600"),
        ("1", "telemetry.max.bytes", "5"),
        ("1", "broker.rack", "east"),
        ("1", "metric.reporters", ""),
        ("1", "sasl.login.refresh.buffer.seconds", "40000"),
        ("1", "no.such", "1"),
        ("", "no.such", "2"),
        ("", "listener.name.plaintext.ssl.client.auth", "none"),
    ):
        change(broker, BROKER, name, (key, SET, value))
        tell(broker, BROKER, "1", key, note=f"after {name!r} {value}")
        tell(broker, BROKER, "", key, note=f"after {name!r} {value}")
        change(broker, BROKER, name, (key, DELETE, None), note=f"after {value} ")
        tell(broker, BROKER, "1", key, note=f"after the end of {name!r} {value}")


@compare_brokers
def test_every_setting_of_the_broker_can_or_cannot_change_as_in_kafka(broker: Conversation) -> None:
    known = {key: item for key, item in BrokerConfig().known().items() if key not in OUR_SETTINGS}
    samples = {"int": "1", "float": "0.5", "bool": "true", "list": "x", "class": "x", "Secret": "x", "str": "x"}

    for key, setting in known.items():
        value = samples[setting.kind] if setting.default is None else setting.default_text
        for name in ("1", ""):
            change(broker, BROKER, name, (key, SET, value), validate_only=True)
    for key in ("max.connections", "sasl.enabled.mechanisms", "ssl.keystore.location"):
        change(broker, BROKER, "1", (f"listener.name.plaintext.{key}", SET, "5"), validate_only=True)


@compare_brokers
def test_min_insync_replicas_of_all_brokers(broker: Conversation) -> None:
    key = "min.insync.replicas"
    broker.create("t")
    for name, operation, value in (("1", SET, "2"), ("", DELETE, None), ("", SET, "2"), ("", SET, "0"), ("", SET, "1")):
        change(broker, BROKER, name, (key, operation, value))
        tell(broker, BROKER, "", key, note=f"after {name!r} {operation} {value}")
        tell(broker, BROKER, "1", key, note=f"after {name!r} {operation} {value}")
        tell(broker, TOPIC, broker.topic("t"), key, note=f"after {name!r} {operation} {value}")
    replace(broker, BROKER, "", ("log.retention.ms", "-1"))
    broker.create("demanding", min_insync_replicas="2")
    for acks in (1, -1):
        request = produce_request(broker.topic("demanding"), batch(b"x"), acks=acks)
        broker.ask(request, 9, f"acks {acks} with one of two replicas")


@compare_brokers
def test_settings_of_other_things(broker: Conversation) -> None:
    for operations in (
        (("root", SET, "NOISY"),),
        (("root", SET, "warn"),),
        (("root", DELETE, None),),
        (("root", APPEND, "WARN"),),
        (("unknown", SET, "WARN"),),
        (("unknown", DELETE, None),),
    ):
        change(broker, LOGGER, "1", *operations)
    for name in ("", "2"):
        change(broker, LOGGER, name, ("root", SET, "ERROR"))
        tell(broker, LOGGER, name)
    group = broker.topic("group")
    for operation in (
        ("consumer.session.timeout.ms", SET, "50000"),
        ("consumer.session.timeout.ms", SET, "1"),
        ("consumer.session.timeout.ms", SET, "70000"),
        ("consumer.session.timeout.ms", SET, "x"),
        ("consumer.heartbeat.interval.ms", SET, "50000"),
        ("no.such", SET, "1"),
    ):
        change(broker, GROUP, group, operation)
        for key in ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"):
            tell(broker, GROUP, group, key, note=f"after {operation}")
    change(broker, GROUP, group, ("consumer.session.timeout.ms", DELETE, None))
    change(broker, GROUP, "", ("consumer.session.timeout.ms", SET, "50000"))
    tell(broker, GROUP, "")
    tell(broker, METRICS, "")
    for kind in (64, 0):
        change(broker, kind, "x", ("a", SET, "b"))
        tell(broker, kind, "x")
    for types in ((BROKER,), (LOGGER,), (64,), (BROKER, LOGGER)):
        broker.ask(ListConfigResourcesRequest(resource_types=types), 1, f"types {types}")
    broker.ask(ListConfigResourcesRequest(), 0)


def all_settings(address: str, kind: int, name: str) -> dict[str, tuple[object, ...]]:
    """Type, default, changeability and secrecy of every setting, by key."""
    resource = describing.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    with RawClient(address) as client:
        request = describing.DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
        (result,) = client.ask(request, 4).results
    assert result.error_code == 0
    found: dict[str, tuple[object, ...]] = {}
    for config in result.configs:
        defaults = [(item.name, item.value) for item in config.synonyms if item.source == _DEFAULT]
        found[config.name] = (config.config_type, config.read_only, config.is_sensitive, defaults)
    return found


def test_settings_have_kafkas_types_defaults_and_say_rightly_what_can_change(
    kafka_broker: EmbeddedBroker, apache_kafka: ApacheKafka
) -> None:
    different: dict[str, object] = {}
    alone: set[str] = set()
    lacking: set[str] = set()
    for broker in (kafka_broker, apache_kafka):
        broker.create_topic("settings")
    for kind, name in ((BROKER, "1"), (TOPIC, "settings"), (GROUP, "settings")):
        ours, theirs = (all_settings(broker.bootstrap_servers, kind, name) for broker in (kafka_broker, apache_kafka))
        different |= {key: (ours[key], theirs[key]) for key in ours.keys() & theirs.keys() if ours[key] != theirs[key]}
        alone |= ours.keys() - theirs.keys()
        lacking |= theirs.keys() - ours.keys()
    assert {key: found for key, found in different.items() if key not in SETTINGS} == {}
    assert set(SETTINGS) - set(different) == set(), "these are the same by now"
    assert alone == set(OUR_SETTINGS)
    assert lacking == set(THEIR_SETTINGS)
