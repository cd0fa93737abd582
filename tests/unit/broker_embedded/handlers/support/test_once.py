"""Entries that a request repeats, joined."""

from broker_embedded.handlers.support.once import once
from spark_kafka_native.protocol.messages.describe_configs import DescribeConfigsResource


def resource(name: str, *keys: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=keys)


def joined(*resources: DescribeConfigsResource) -> list[tuple[str, tuple[str, ...] | None]]:
    found = once(resources, lambda each: each.resource_name, joined="configuration_keys")
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
