import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from tests.support.broker.configs import BROKER, LOGGER, TOPIC, own, put, replace
from tests.support.broker.driver import BrokerDriver


@pytest.mark.parametrize("version", range(3))
def test_settings_that_are_not_named_return_to_their_defaults(broker: BrokerDriver, version: int) -> None:
    broker.create("t", retention_ms="5", segment_ms="6")
    assert replace(broker, TOPIC, "t", ("retention.ms", "7"), version=version).error_code == 0
    assert own(broker) == {"retention.ms": "7"}
    assert broker.broker.partitions.get("t", 0).log.config.retention_ms == 7
    assert replace(broker, TOPIC, "t", version=version).error_code == 0
    assert own(broker) == {}


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_altered_configs_survive_a_restart(broker: BrokerDriver, how: str) -> None:
    broker.create("t", retention_ms="5")
    replace(broker, TOPIC, "t", ("segment.ms", "7"))
    getattr(broker, how)()
    assert own(broker) == {"segment.ms": "7"}


def test_settings_of_the_broker(broker: BrokerDriver) -> None:
    put(broker, BROKER, "1", max_connections="7")
    assert replace(broker, BROKER, "1", ("log.retention.ms", "5")).error_code == 0
    assert broker.broker.configs.own == {"log.retention.ms": "5"}
    wanted = (("log.retention.ms", "6"), ("min.insync.replicas", "1"))
    assert replace(broker, BROKER, "", *wanted).error_code == 0
    assert broker.broker.configs.stored.cluster == dict(wanted)
    result = replace(broker, BROKER, "", ("log.retention.ms", "6"))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message == (
        "min.insync.replicas cannot be removed for all brokers while eligible.leader.replicas.version is 1 (KIP-966)"
    )


def test_checking_alone_changes_nothing(broker: BrokerDriver) -> None:
    broker.create("t", retention_ms="5")
    assert replace(broker, TOPIC, "t", ("retention.ms", "7"), validate_only=True).error_code == 0
    bad = replace(broker, TOPIC, "t", ("retention.ms", "x"), validate_only=True)
    assert bad.error_code == ErrorCode.INVALID_CONFIG
    assert own(broker) == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "name", "pairs", "code", "said"),
    [
        (TOPIC, "t", (("retention.ms", None),), ErrorCode.INVALID_REQUEST, "Null value"),
        (TOPIC, "t", (("retention.ms", "1"), ("retention.ms", "2")), ErrorCode.INVALID_REQUEST, "duplicate"),
        (TOPIC, "t", (("segment.ms", "1"), ("retention.ms", "x")), ErrorCode.INVALID_CONFIG, "whole number"),
        (TOPIC, "missing", (), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
        (BROKER, "1", (("num.partitions", "1"),), ErrorCode.INVALID_REQUEST, "cannot change"),
        (LOGGER, "1", (("root", "INFO"),), ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
    ],
)
def test_refused_alterations_change_no_setting(
    broker: BrokerDriver, kind: int, name: str, pairs: tuple[tuple[str, str | None], ...], code: ErrorCode, said: str
) -> None:
    broker.create("t", retention_ms="5")
    result = replace(broker, kind, name, *pairs)
    assert (result.error_code, said in (result.error_message or "")) == (code, True), result
    assert own(broker) == {"retention.ms": "5"}


def test_a_resource_named_twice_is_not_changed(broker: BrokerDriver) -> None:
    broker.create("t", retention_ms="5")
    broker.create("u", retention_ms="5")
    resources = tuple(AlterConfigsResource(resource_type=TOPIC, resource_name=name) for name in ("t", "u", "t"))
    results = broker.ask(AlterConfigsRequest(resources=resources), 2).responses
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert (own(broker, "t"), own(broker, "u")) == ({"retention.ms": "5"}, {})


def test_a_broker_that_is_named_twice_is_not_changed_however_its_id_is_written(broker: BrokerDriver) -> None:
    setting = AlterableConfig(name="log.retention.ms", value="5")
    names = ("1", "+01")
    resources = tuple(
        AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=(setting,)) for name in names
    )
    results = broker.ask(AlterConfigsRequest(resources=resources), 2).responses
    assert [(result.resource_name, result.error_code) for result in results] == [
        (name, ErrorCode.INVALID_REQUEST) for name in names
    ]
    assert broker.broker.configs.own == {}
