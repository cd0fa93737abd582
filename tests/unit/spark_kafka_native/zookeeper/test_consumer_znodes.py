"""The znodes of consumer groups have the formats of Kafka 0.8 to 3.9."""

import json

import pytest

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._zookeeper.consumer_znodes import (
    BLACK_LIST,
    MAX_STREAMS,
    STATIC,
    WHITE_LIST,
    GroupPaths,
    Subscription,
    ThreadId,
    decode_offset,
    decode_subscription,
    encode_subscription,
)
from spark_kafka_native._zookeeper.json_data import InvalidZnode


def test_a_registration_is_as_kafkas_consumers_write_it() -> None:
    data = encode_subscription(Subscription(pattern=STATIC, streams={"t": 2}), 1_700_000_000_000)
    assert data == b'{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"1700000000000"}'


@pytest.mark.parametrize("pattern", [STATIC, WHITE_LIST, BLACK_LIST])
def test_registrations_of_kafkas_consumers_are_read(pattern: str) -> None:
    data = {"version": 1, "subscription": {"t|u": 3}, "pattern": pattern, "timestamp": "1"}
    assert decode_subscription(json.dumps(data).encode()) == Subscription(pattern=pattern, streams={"t|u": 3})


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"t1,t2", "it is not JSON"),
        (b"[]", "it is not a JSON object"),
        (b'{"subscription":{"t":1}}', "its pattern is not one of static, white_list, black_list"),
        (b'{"pattern":["static"],"subscription":{"t":1}}', "its pattern is not one of"),
        (b'{"pattern":"static","subscription":["t"]}', "its subscription does not give"),
        (b'{"pattern":"static","subscription":{"t":0}}', "from 1 to 10000 streams"),
        (b'{"pattern":"static","subscription":{"t":true}}', "from 1 to 10000 streams"),
        (b'{"pattern":"static","subscription":{"t":%d}}' % (MAX_STREAMS + 1), "from 1 to 10000 streams"),
        (b'{"pattern":"white_list","subscription":{"t":1,"u":1}}', "its subscription does not have one expression"),
        (b'{"pattern":"black_list","subscription":{}}', "its subscription does not have one expression"),
    ],
)
def test_what_is_no_registration_is_an_error(data: bytes, problem: str) -> None:
    with pytest.raises(InvalidZnode, match=problem):
        decode_subscription(data)


def test_offsets_are_decimal_text() -> None:
    assert decode_offset(b"0") == 0
    assert decode_offset(b"9223372036854775807") == 2**63 - 1
    assert decode_offset(b"-1") == -1


@pytest.mark.parametrize("data", [b"", b"-", b"1.5", b" 1", b"1\n", b"\xd9\xa1", b"9" * 20, b"%d" % 2**63, b"0" * 101])
def test_what_is_no_offset_is_an_error(data: bytes) -> None:
    with pytest.raises(InvalidZnode, match="is not an offset"):
        decode_offset(data)


def test_paths_are_those_of_kafka() -> None:
    paths = GroupPaths("g")
    partition = TopicPartition("t", 3)
    assert paths.consumer("g_c") == "/consumers/g/ids/g_c"
    assert paths.owner(partition) == "/consumers/g/owners/t/3"
    assert paths.offset(partition) == "/consumers/g/offsets/t/3"
    assert str(ThreadId("g_c", 1)) == "g_c-1"
