import struct

import pytest

from spark_kafka_native._protocol.consumer_protocol import (
    Assignment,
    MalformedEmbedded,
    Subscription,
    TopicPartitions,
    encode_assignment,
    read_assignment,
    read_subscription,
    version_of,
)
from tests.support.groups.subscriptions import encode_subscription

WHOLE = Subscription(
    topics=("t",),
    user_data=b"u",
    owned_partitions=(TopicPartitions(topic="t", partitions=(1, 2)),),
    generation_id=4,
    rack_id="r",
)


def test_a_subscription_in_all_its_bytes() -> None:
    assert encode_subscription(WHOLE, 3).hex() == (
        "0003" + "00000001" + "000174" + "00000001" + "75"
        "00000001" + "000174" + "00000002" + "00000001" + "00000002"
        "00000004" + "000172"
    )


@pytest.mark.parametrize(
    ("version", "owned", "generation", "rack"),
    [
        (0, (), -1, None),
        (1, WHOLE.owned_partitions, -1, None),
        (2, WHOLE.owned_partitions, 4, None),
        (3, WHOLE.owned_partitions, 4, "r"),
    ],
)
def test_later_versions_append_fields(version: int, owned: object, generation: int, rack: str | None) -> None:
    read = read_subscription(encode_subscription(WHOLE, version))
    assert (read.topics, read.user_data) == (("t",), b"u")
    assert (read.owned_partitions, read.generation_id, read.rack_id) == (owned, generation, rack)


def test_a_newer_version_is_read_as_the_last_one_known() -> None:
    newer = b"\x00\x09" + encode_subscription(WHOLE, 3)[2:] + b"more"
    assert read_subscription(newer) == WHOLE
    assert version_of(newer) == 3


@pytest.mark.parametrize(
    "raw", [b"", b"\x00", b"\xff\xff", b"\x00\x00", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\x00\x00\x00\x01\x00\x05a"]
)
def test_what_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedEmbedded):
        read_subscription(raw)


def test_an_assignment_in_all_its_bytes() -> None:
    assignment = Assignment(assigned_partitions=(TopicPartitions(topic="t", partitions=(0, 2)),))
    raw = struct.pack(">hih1siiii", 1, 1, 1, b"t", 2, 0, 2, -1)
    assert encode_assignment(assignment, 1) == raw
    assert read_assignment(raw) == read_assignment(memoryview(raw)) == assignment


def test_an_assignment_is_read_whole_or_not_at_all() -> None:
    raw = struct.pack(">hih1siii1s", 0, 1, 1, b"t", 1, 0, 1, b"u")
    assert read_assignment(raw).user_data == b"u"
    for end in range(len(raw)):
        with pytest.raises(MalformedEmbedded, match="assignment cannot be read"):
            read_assignment(raw[:end])
    with pytest.raises(MalformedEmbedded):
        read_assignment(struct.pack(">hih2s", 0, 1, 2, b"\xff\xff"))
