import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._client.groups.assignors import ASSIGNORS
from spark_kafka_native._client.groups.member_metadata import (
    decode_member,
    decode_partitions,
    encode_member,
    encode_partitions,
)
from spark_kafka_native._protocol.consumer_protocol import MalformedEmbedded, Subscription, encode_subscription
from spark_kafka_native._protocol.topic import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_the_leader_reads_what_a_member_has_written(assignor: str) -> None:
    raw = encode_member(assignor, ["b", "a"], owned=[A1], previous=[A0, B0], generation=7, rack="r")
    found = decode_member(assignor, raw, "instance")
    assert (sorted(found.topics), found.instance_id) == (["a", "b"], "instance")
    assert found.generation == 7
    assert found.owned == ((A0, B0) if assignor == "sticky" else (A1,))


def test_bytes_of_the_sticky_assignors_are_kafkas() -> None:
    sticky = encode_member("sticky", ["a"], previous=[A0], generation=2)
    user_data = b"\0\0\0\1\0\1a\0\0\0\1\0\0\0\0\0\0\0\2"
    assert sticky == b"\0\3\0\0\0\1\0\1a" + b"\0\0\0\x13" + user_data + b"\0\0\0\0\0\0\0\2\xff\xff"
    cooperative = encode_member("cooperative-sticky", ["a"], owned=[A0], generation=2)
    assert b"\0\0\0\4\0\0\0\2" in cooperative


def test_older_members_of_the_sticky_assignors_are_read() -> None:
    without_generation = b"\0\0\0\1\0\1a\0\0\0\1\0\0\0\0"
    old = encode_subscription(Subscription(topics=("a",), user_data=without_generation), 0)
    assert decode_member("sticky", old, None).owned == (A0,)
    old = encode_subscription(Subscription(topics=("a",), user_data=b"\0\0\0\x09"), 1)
    assert decode_member("cooperative-sticky", old, None).generation == 9
    assert decode_member("sticky", encode_subscription(Subscription(topics=("a",)), 0), None).owned == ()


@pytest.mark.parametrize(("assignor", "raw"), [("sticky", b"\0\0\0\x09rubbish"), ("cooperative-sticky", b"\0")])
def test_user_data_that_cannot_be_read_is_no_previous_assignment(assignor: str, raw: bytes) -> None:
    found = decode_member(assignor, encode_subscription(Subscription(topics=("a",), user_data=raw), 1), None)
    assert (found.topics, found.owned, found.generation) == (frozenset("a"), (), -1)


def test_an_assignment_is_read_as_it_was_written() -> None:
    assert decode_partitions(encode_partitions([A0, B0, A1])) == (A0, A1, B0)
    assert decode_partitions(b"") == ()


@given(st.sampled_from(list(ASSIGNORS)), st.binary(max_size=40))
def test_other_bytes_are_malformed_or_a_member(assignor: str, raw: bytes) -> None:
    for read in (lambda: decode_member(assignor, raw, None), lambda: decode_partitions(raw)):
        with contextlib.suppress(MalformedEmbedded):
            read()
