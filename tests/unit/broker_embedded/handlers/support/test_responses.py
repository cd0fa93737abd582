"""Distinct entries, authorized operations and the error codes of fenced producers."""

import pytest

from broker_embedded.handlers.support.responses import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
    merge_repeated,
    producer_error_code,
)
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.describe_configs import DescribeConfigsResource

OLD, FENCED = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED


def resource(name: str, *keys: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=keys)


def joined(*resources: DescribeConfigsResource) -> list[tuple[str, tuple[str, ...] | None]]:
    found = merge_repeated(resources, lambda each: each.resource_name, joined="configuration_keys")
    return [(each.resource_name, each.configuration_keys) for each in found]


def test_entries_that_differ_are_left_as_they_are() -> None:
    assert joined(resource("b", "k"), resource("a")) == [("b", ("k",)), ("a", ())]


def test_the_lists_of_a_repeated_entry_are_joined_in_order() -> None:
    assert joined(resource("a", "x", "y"), resource("b"), resource("a", "y", "z")) == [
        ("a", ("x", "y", "z")),
        ("b", ()),
    ]


def test_a_missing_list_requests_everything() -> None:
    every = DescribeConfigsResource(resource_type=2, resource_name="a", configuration_keys=None)
    assert joined(resource("a", "x"), every, resource("a", "y")) == [("a", None)]


def test_authorized_operations_are_those_of_apache_kafka_without_an_authorizer() -> None:
    assert (TOPIC_OPERATIONS, CLUSTER_OPERATIONS, NOT_ASKED) == (3576, 8096, -2147483648)


@pytest.mark.parametrize(("version", "code"), [(1, OLD), (2, FENCED), (3, FENCED)])
def test_a_fenced_producer_gets_the_error_code_of_its_version(version: int, code: ErrorCode) -> None:
    assert producer_error_code(KafkaError(FENCED), version, fenced_since=2) is code


def test_other_codes_are_the_same_in_all_versions() -> None:
    error = KafkaError(ErrorCode.INVALID_TXN_STATE)
    assert producer_error_code(error, 0, fenced_since=2) is ErrorCode.INVALID_TXN_STATE
