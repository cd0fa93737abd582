import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_embedded._handlers import describe_configs
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from spark_kafka_native._protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.broker.configs import BROKER, GROUP, LOGGER, TOPIC, described, put
from tests.support.broker.driver import BrokerDriver


@pytest.mark.parametrize("version", range(5))
def test_a_setting_in_every_version(broker: BrokerDriver, version: int) -> None:
    broker.passing_for("3.9")
    broker.create("t", retention_ms="5")
    result = described(broker, TOPIC, "t", "retention.ms", "retention.bytes", version=version)
    assert (result.error_code, result.error_message) == (0, None)
    by_bytes, by_time = result.configs
    assert [(item.name, item.value, item.read_only, item.is_sensitive) for item in (by_time, by_bytes)] == [
        ("retention.ms", "5", False, False),
        ("retention.bytes", "-1", False, False),
    ]
    if version == 0:
        assert (by_time.is_default, by_bytes.is_default) == (False, True)
    else:
        assert (by_time.config_source, by_bytes.config_source) == (1, 5)
        assert [item.name for item in by_bytes.synonyms] == ["log.retention.bytes"]
    if version >= 3:
        assert (by_time.config_type, by_bytes.config_type) == (5, 5)
        assert "older than this" in (by_time.documentation or "")


@pytest.mark.parametrize("given", ["", "SCRAM-SHA-256=[name=alice,password=hunter2]"])
def test_the_values_of_secrets_are_not_described(tmp_path: Path, given: str) -> None:
    with BrokerDriver(tmp_path, {"add.scram": given} if given else None) as broker:
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=("add.scram",))
        request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
        ((secret,),) = (result.configs for result in broker.ask(request, 4).results)
    assert (secret.value, secret.is_sensitive, secret.config_type) == (None, True, 9)
    assert [synonym.value for synonym in secret.synonyms] == [None] * bool(given)
    assert secret.config_source == (4 if given else 5)


@pytest.mark.parametrize("keys", [None, ()])
def test_null_or_no_names_describe_all_configs(broker: BrokerDriver, keys: tuple[str, ...] | None) -> None:
    broker.create("t")
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=keys)
    (result,) = broker.ask(DescribeConfigsRequest(resources=(resource,)), 4).results
    assert described(broker, TOPIC, "t", "no.such").configs == ()
    assert len(result.configs) > 10
    assert all(config.synonyms == () and config.documentation is None for config in result.configs)


def test_an_error_of_one_resource_does_not_affect_the_others(broker: BrokerDriver) -> None:
    broker.create("t")
    wanted = ((TOPIC, "t"), (TOPIC, "missing"), (BROKER, "1"), (BROKER, "7"), (LOGGER, "1"))
    resources = tuple(DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in wanted)
    results = broker.ask(DescribeConfigsRequest(resources=resources), 1).results
    assert [(result.resource_type, result.resource_name) for result in results] == list(wanted)
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST
    assert [result.error_code for result in results] == [0, unknown, 0, invalid, 0]
    assert [bool(result.configs) for result in results] == [True, False, True, False, True]


def test_a_type_that_does_not_exist_fails_the_request(broker: BrokerDriver) -> None:
    broker.create("t")
    resources = tuple(DescribeConfigsResource(resource_type=kind, resource_name="t") for kind in (TOPIC, 64))
    results = broker.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST] * 2


def test_loggers_have_levels(broker: BrokerDriver) -> None:
    found = {config.name: config for config in described(broker, LOGGER, "1").configs}
    assert {"root", "broker_embedded._metadata.topics"} <= set(found)
    assert {config.config_source for config in found.values()} == {6}
    assert found["root"].value in {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}


@pytest.mark.parametrize("kind", [BROKER, LOGGER])
def test_a_broker_is_described_once_however_its_id_is_written(broker: BrokerDriver, kind: int) -> None:
    """As Java's Integer.parseInt reads it: with a sign, leading zeros, or digits of another script."""
    same = ("1", "01", "+1", "\uff11", "+0\u0661")
    others = (" 1", "1 ", "\t1", "1\n", "1_", "0_1", "\U0001d7cf", "+", "1.0", "4294967297", "0" * 5000 + "1")
    resources = tuple(DescribeConfigsResource(resource_type=kind, resource_name=name) for name in same + others)
    results = broker.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [(result.resource_name, result.error_code, bool(result.configs)) for result in results] == [
        ("1", 0, True),
        *((name, ErrorCode.INVALID_REQUEST, False) for name in others),
    ]


def test_other_requests_are_handled_between_the_configs_of_two_brokers(
    broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []
    original = describe_configs._result

    async def beside() -> None:
        while True:
            turns.append(len(described_by_now))
            await asyncio.sleep(0)

    def noted(resource: DescribeConfigsResource, *rest: Any) -> Any:
        described_by_now.append(resource.resource_name)
        return original(resource, *rest)

    described_by_now: list[str] = []
    monkeypatch.setattr(describe_configs, "_result", noted)
    monkeypatch.setattr(describe_configs, "resource_key", lambda kind, name: (kind, name))
    names = ("1", "01", "001")
    resources = tuple(DescribeConfigsResource(resource_type=BROKER, resource_name=name) for name in names)

    async def concurrent_requests() -> None:
        other = asyncio.ensure_future(beside())
        await broker.begin(DescribeConfigsRequest(resources=resources), 4)
        other.cancel()

    broker.run(concurrent_requests())
    assert {1, 2, 3} <= set(turns)


def test_groups_without_settings_are_described_up_to_a_bound(
    broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_configs, "_MAX_GROUPS", 3)
    put(broker, GROUP, "set", consumer_session_timeout_ms="50000")
    names = ("a", "b", "c", "d", "set", "e")
    resources = tuple(DescribeConfigsResource(resource_type=GROUP, resource_name=name) for name in names)
    results = broker.ask(DescribeConfigsRequest(resources=(*resources, resources[0])), 4).results
    assert [result.resource_name for result in results] == list(names)
    assert [result.error_code for result in results] == [0, 0, 0, ErrorCode.INVALID_REQUEST, 0, 42]
    assert "at most 3 groups" in (results[3].error_message or "")


def listed(broker: BrokerDriver, *types: int) -> list[tuple[str, int]]:
    response = broker.ask(ListConfigResourcesRequest(resource_types=types), 1)
    assert response.error_code == 0
    return [(resource.resource_name, resource.resource_type) for resource in response.config_resources]


def test_all_and_some(broker: BrokerDriver) -> None:
    broker.create("b")
    broker.create("a")
    assert listed(broker) == [("1", 8), ("1", 4), ("a", 2), ("b", 2)]
    assert listed(broker, 2) == [("a", 2), ("b", 2)]
    assert listed(broker, 2, 4) == [("1", 4), ("a", 2), ("b", 2)]
    assert listed(broker, 16) == listed(broker, 32) == []
    response = broker.ask(ListConfigResourcesRequest(), 0)  # v0 lists subscriptions to metrics only
    assert (response.error_code, response.config_resources) == (0, ())


def test_a_type_that_does_not_exist(broker: BrokerDriver) -> None:
    response = broker.ask(ListConfigResourcesRequest(resource_types=(2, 64)), 1)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, ())
