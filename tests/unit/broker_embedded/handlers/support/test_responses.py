import pytest

from broker_embedded._handlers.support.responses import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    merge_repeated,
    producer_error_code,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_configs import DescribeConfigsResource

OLD, FENCED, OTHER = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE


def resource(name: str, *keys: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=keys)


def joined(*resources: DescribeConfigsResource) -> list[tuple[str, tuple[str, ...] | None]]:
    found = merge_repeated(resources, lambda each: each.resource_name, joined="configuration_keys")
    return [(each.resource_name, each.configuration_keys) for each in found]


def test_lists_of_repeated_entries_are_joined_in_order() -> None:
    assert joined(resource("b", "k"), resource("a")) == [("b", ("k",)), ("a", ())]
    repeated = joined(resource("a", "x", "y"), resource("b"), resource("a", "y", "z"))
    assert repeated == [("a", ("x", "y", "z")), ("b", ())]
    every = DescribeConfigsResource(resource_type=2, resource_name="a", configuration_keys=None)
    assert joined(resource("a", "x"), every, resource("a", "y")) == [("a", None)]
    assert joined(every, resource("a", "x")) == [("a", None)]


def test_authorized_operations_are_those_of_apache_kafka_without_an_authorizer() -> None:
    assert (TOPIC_OPERATIONS, CLUSTER_OPERATIONS, NOT_ASKED) == (3576, 8096, -2147483648)


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [(FENCED, 1, OLD), (FENCED, 2, FENCED), (FENCED, 3, FENCED), (OTHER, 0, OTHER), (OTHER, 2, OTHER)],
)
def test_a_fenced_producer_gets_the_error_code_of_its_version(error: ErrorCode, version: int, code: ErrorCode) -> None:
    assert producer_error_code(KafkaError(error), version, fenced_since=2) is code
