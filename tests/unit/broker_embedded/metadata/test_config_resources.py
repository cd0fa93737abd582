import pytest

from broker_embedded._metadata.config_changes import ResourceType
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.broker.configs import BROKER, DELETE, GROUP, LOGGER, METRICS, SET, TOPIC, change, put
from tests.support.broker.driver import BrokerDriver
from tests.support.refusals import refused


def test_every_resource_is_listed_and_can_be_read(broker: BrokerDriver) -> None:
    broker.create("b")
    broker.create("a")
    found = broker.broker.config_resources.all()
    assert found == [
        (ResourceType.BROKER_LOGGER, "1"),
        (ResourceType.BROKER, "1"),
        (ResourceType.TOPIC, "a"),
        (ResourceType.TOPIC, "b"),
    ]
    for kind, name in found:
        assert broker.broker.config_resources.entries(kind, name)


@pytest.mark.parametrize(
    ("kind", "name", "code", "said"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, "characters"),
        (BROKER, "2", ErrorCode.INVALID_REQUEST, "expected 1, but received 2"),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "must be an integer, but it is: x"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "must be an integer"),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST, "expected 1"),
        (METRICS, "m", ErrorCode.INVALID_REQUEST, "Unsupported resource type"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "must not be empty"),
    ],
)
def test_configs_of_unknown_resources_are_refused(
    broker: BrokerDriver, kind: int, name: str, code: ErrorCode, said: str
) -> None:
    error = refused(broker.broker.config_resources.entries, kind, name)
    assert error.code is code
    assert said in (error.detail or "")


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "code", "said"),
    [
        (TOPIC, "t", "retention.ms", "x", ErrorCode.INVALID_CONFIG, "retention.ms: 'x' is not a whole number"),
        (TOPIC, "t", "retention.ms", "-2", ErrorCode.INVALID_CONFIG, "-2 is out of range"),
        (TOPIC, "t", "retention.msec", "1", ErrorCode.INVALID_CONFIG, "did you mean retention.ms?"),
        (TOPIC, "missing", "retention.ms", "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "'missing' does not exist"),
        (TOPIC, "missing", "retention.ms", "x", ErrorCode.INVALID_CONFIG, "whole number"),
        (TOPIC, "", "retention.ms", "1", ErrorCode.INVALID_REQUEST, "Default topic resources"),
        (TOPIC, "a/b", "retention.ms", "1", ErrorCode.INVALID_TOPIC_EXCEPTION, "characters"),
        (BROKER, "1", "log.retention.ms", "x", ErrorCode.INVALID_REQUEST, "log.retention.ms: 'x'"),
        (BROKER, "1", "num.partitions", "3", ErrorCode.INVALID_REQUEST, "cannot change while the broker runs"),
        (BROKER, "", "num.partitions", "3", ErrorCode.INVALID_REQUEST, "cannot change while the broker runs"),
        (
            BROKER,
            "1",
            "num.io.threads",
            "3",
            ErrorCode.INVALID_REQUEST,
            "num.io.threads: the value is 8, so that one change must set 4 to 16",
        ),
        (BROKER, "1", "listeners", "PLAINTEXT://:1", ErrorCode.INVALID_REQUEST, "cannot change while the broker runs"),
        (
            BROKER,
            "",
            "ssl.client.auth",
            "none",
            ErrorCode.INVALID_REQUEST,
            "the setting can change for a single broker only",
        ),
        (BROKER, "1", "min.insync.replicas", "1", ErrorCode.INVALID_CONFIG, "only for all brokers"),
        (BROKER, "2", "log.retention.ms", "3", ErrorCode.INVALID_REQUEST, "expected 1, but received 2"),
        (BROKER, "x", "log.retention.ms", "3", ErrorCode.INVALID_REQUEST, "must be an integer"),
        (GROUP, "g", "consumer.session.timeout.ms", "1", ErrorCode.INVALID_CONFIG, "not between 45000 and 60000"),
        (GROUP, "g", "consumer.session.timeout.ms", "x", ErrorCode.INVALID_CONFIG, "not a whole number"),
        (GROUP, "g", "share.session.timeout.ms", "50000", ErrorCode.INVALID_CONFIG, "no such setting"),
        (GROUP, "", "consumer.session.timeout.ms", "50000", ErrorCode.INVALID_REQUEST, "Default group resources"),
        (METRICS, "m", "interval.ms", "3", ErrorCode.INVALID_REQUEST, "Unknown resource type 16"),
        (64, "m", "x", "3", ErrorCode.INVALID_REQUEST, "Unknown resource type 64"),
    ],
)
def test_invalid_changes_are_refused(
    broker: BrokerDriver, kind: int, name: str, key: str, value: str, code: ErrorCode, said: str
) -> None:
    broker.create("t")
    result = change(broker, kind, name, (key, SET, value))
    assert result.error_code == code
    assert said in (result.error_message or "")


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_settings_of_a_group(broker: BrokerDriver, how: str) -> None:
    put(broker, GROUP, "g", consumer_session_timeout_ms="50000")
    getattr(broker, how)()
    assert (ResourceType.GROUP, "g") in broker.broker.config_resources.all()
    assert broker.broker.configs.stored.groups == {"g": {"consumer.session.timeout.ms": "50000"}}
    assert change(broker, GROUP, "g", ("consumer.session.timeout.ms", DELETE, None)).error_code == 0
    assert broker.broker.configs.stored.groups == {}
    assert [name for kind, name in broker.broker.config_resources.all() if kind is ResourceType.GROUP] == []
