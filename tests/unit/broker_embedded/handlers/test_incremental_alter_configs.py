import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.broker.configs import APPEND, DELETE, LOGGER, SET, SUBTRACT, TOPIC, change, configs_of, own, put
from tests.support.broker.driver import BrokerDriver, batch


@pytest.mark.parametrize("version", range(2))
def test_settings_are_set_and_deleted_in_every_version(broker: BrokerDriver, version: int) -> None:
    broker.create("t", retention_ms="5")
    operations = (("retention.ms", DELETE, None), ("segment.ms", SET, "7"))
    assert change(broker, TOPIC, "t", *operations, version=version).error_code == 0
    assert own(broker) == {"segment.ms": "7"}


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_every_open_log_of_the_topic_follows_and_a_later_one_too(broker: BrokerDriver, how: str) -> None:
    broker.create("t", partitions=2)
    put(broker, TOPIC, "t", retention_ms="5")
    assert {log.config.retention_ms for log in broker.broker.logs.logs.values()} == {5}
    getattr(broker, how)()
    assert {log.config.retention_ms for log in broker.broker.logs.logs.values()} == {5}


def test_records_are_judged_by_the_new_settings(broker: BrokerDriver) -> None:
    broker.create("t")
    assert broker.produce("t", batch(b"x" * 1000)).error_code == 0
    put(broker, TOPIC, "t", max_message_bytes="500")
    assert broker.produce("t", batch(b"x" * 1000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    change(broker, TOPIC, "t", ("max.message.bytes", DELETE, None))
    assert broker.produce("t", batch(b"x" * 1000)).error_code == 0


def test_lists_grow_and_shrink(broker: BrokerDriver) -> None:
    broker.create("t")
    assert change(broker, TOPIC, "t", ("cleanup.policy", APPEND, "compact")).error_code == 0
    assert own(broker) == {"cleanup.policy": "delete,compact"}
    assert change(broker, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")).error_code == 0
    assert own(broker) == {"cleanup.policy": "compact"}
    refused = change(broker, TOPIC, "t", ("cleanup.policy", APPEND, "burn"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert own(broker) == {"cleanup.policy": "compact"}


def test_checking_alone_changes_nothing(broker: BrokerDriver) -> None:
    broker.create("t")
    assert change(broker, TOPIC, "t", ("retention.ms", SET, "7"), validate_only=True).error_code == 0
    assert own(broker) == {}
    assert broker.broker.partitions.get("t", 0).log.config.retention_ms != 7


@pytest.mark.parametrize(
    ("operations", "code", "said"),
    [
        ((("segment.ms", SET, "1"), ("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG, "whole number"),
        ((("segment.ms", SET, "1"), ("no.such", SET, "x")), ErrorCode.INVALID_CONFIG, "no such setting"),
        ((("retention.ms", SET, None),), ErrorCode.INVALID_REQUEST, "Null value"),
        ((("retention.ms", SET, "1"), ("retention.ms", DELETE, None)), ErrorCode.INVALID_REQUEST, "duplicate"),
        ((("retention.ms", APPEND, "1"),), ErrorCode.INVALID_CONFIG, "Can't APPEND to key retention.ms"),
        ((("retention.ms", 9, "1"),), ErrorCode.INVALID_REQUEST, "no operation 9"),
    ],
)
def test_all_changes_of_a_resource_are_made_or_none(
    broker: BrokerDriver, operations: tuple[tuple[str, int, str | None], ...], code: ErrorCode, said: str
) -> None:
    broker.create("t", retention_ms="5")
    result = change(broker, TOPIC, "t", *operations)
    assert (result.error_code, said in (result.error_message or "")) == (code, True), result
    assert own(broker) == {"retention.ms": "5"}


def test_deleting_what_is_not_set_is_fine(broker: BrokerDriver) -> None:
    broker.create("t")
    assert change(broker, TOPIC, "t", ("retention.ms", DELETE, None), ("no.such", DELETE, None)).error_code == 0


def test_a_resource_named_twice_is_not_changed(broker: BrokerDriver) -> None:
    broker.create("t")
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t")
    results = broker.ask(IncrementalAlterConfigsRequest(resources=(resource, resource)), 1).responses
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_topic_of_an_older_broker_may_have_a_setting_that_kafka_4_removed(broker: BrokerDriver) -> None:
    key = "message.format.version"
    broker.passing_for("3.9").create("t", message_format_version="0.10.2")
    assert broker.broker.partitions.get("t", 0).log.config.record_magic == 1
    broker.passing_for("4.3")
    assert broker.broker.partitions.get("t", 0).log.config.record_magic == 2
    assert key not in configs_of(broker, TOPIC, "t")
    assert change(broker, TOPIC, "t", ("retention.ms", SET, "5")).error_code == 0
    assert own(broker) == {key: "0.10.2", "retention.ms": "5"}
    for name, value in ((key, "2.8"), ("message.downconversion.enable", "true")):
        refused = change(broker, TOPIC, "t", (name, SET, value))
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert f"{name}: no such setting" in (refused.error_message or "")
    assert change(broker, TOPIC, "t", (key, DELETE, None)).error_code == 0
    assert own(broker) == {"retention.ms": "5"}


def test_levels_of_loggers(broker: BrokerDriver) -> None:
    name = "broker_embedded._metadata.topics"
    before = configs_of(broker, LOGGER, "1")[name].value
    assert change(broker, LOGGER, "1", (name, SET, "FATAL"), validate_only=True).error_code == 0
    assert configs_of(broker, LOGGER, "1")[name].value == before
    assert change(broker, LOGGER, "1", (name, SET, "FATAL")).error_code == 0
    assert configs_of(broker, LOGGER, "1")[name].value == "FATAL"
    assert change(broker, LOGGER, "1", (name, DELETE, None)).error_code == 0
    assert configs_of(broker, LOGGER, "1")[name].value == before
    assert change(broker, LOGGER, "7", (name, SET, "INFO")).error_code == ErrorCode.INVALID_REQUEST
