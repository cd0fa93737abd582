"""The partitioners of the Scala producer of Kafka 0.7 and 0.8.2. Those of 0.8.0 and 0.8.1 differ (KAFKA-1469).

The numbers are those of ``kafka.producer.DefaultPartitioner`` and ``ByteArrayPartitioner`` in
kafka_2.10-0.8.2.2.jar, called with these keys and with 7 and 1,000 partitions.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.partitioning.key_hashes import bytes_hash_column, string_hash_column
from spark_kafka_native._client.partitioning.partitioners import Unassigned, make_partitioner

OF_STRINGS = {
    "": (0, 0),
    "a": (6, 97),
    "order-1": (6, 310),
    "user_99": (2, 444),
    "\u00fc\u00df": (6, 35),
    "\u65e5\u672c": (3, 47),
    "\U0001f600-x": (0, 454),
    "polygenelubricants": (0, 0),  # its hash code is -2^31
    "x" * 100: (3, 496),
}
OF_BYTES = {
    b"": (1, 1),
    b"a": (2, 128),
    b"order-1": (1, 25),
    b"user_99": (5, 891),
    "\u00fc\u00df".encode(): (1, 66),
    "\u65e5\u672c".encode(): (2, 899),
    "\U0001f600-x".encode(): (0, 971),
    b"polygenelubricants": (4, 777),
    b"x" * 100: (0, 351),
    b"\xff\x00\x80": (2, 702),
    bytes(range(255, 248, -1)): (2, 627),
    bytes(number % 256 for number in (-51, -42, 44, 2, 98, -49, -42, 105)): (0, 0),  # its hash code is -2^31
}


def partitions_of(name: str, keys: Sequence[bytes | None], partitions: int, available: Sequence[int] = ()) -> list[int]:
    rows = Unassigned(
        keys=pa.array(keys, pa.large_binary()),
        sizes=np.full(len(keys), 10, np.int64),
        partitions=partitions,
        available=available or range(partitions),
    )
    return [int(number) for number in make_partitioner(name, 10**6, first=0).assign(rows)]


@pytest.mark.feature("sink.oldPartitioners")
@pytest.mark.parametrize(("which", "partitions"), [(0, 7), (1, 1000)])
def test_keys_go_to_the_partitions_of_the_producer_of_kafka_0_8_2(which: int, partitions: int) -> None:
    strings = [key.encode() for key in OF_STRINGS]
    assert partitions_of("string_hash", strings, partitions) == [found[which] for found in OF_STRINGS.values()]
    assert partitions_of("bytes_hash", [*OF_BYTES], partitions) == [found[which] for found in OF_BYTES.values()]


@pytest.mark.parametrize("name", ["string_hash", "bytes_hash"])
def test_rows_without_a_key_go_to_any_available_partition(name: str) -> None:
    found = partitions_of(name, [None] * 500 + [b"a"], 7, available=[2, 5])
    assert set(found[:-1]) == {2, 5}
    assert found[-1:] == partitions_of(name, [b"a"], 7)


@pytest.mark.feature("sink.oldPartitioners")
@pytest.mark.parametrize(
    ("java_name", "name"),
    [("kafka.producer.DefaultPartitioner", "string_hash"), ("kafka.producer.ByteArrayPartitioner", "bytes_hash")],
)
def test_the_java_names_of_the_partitioners(java_name: str, name: str) -> None:
    config = ClientConfig.parse({"bootstrap.servers": "a:1", "partitioner.class": java_name})
    assert config.partitioner_class == name


def java_hash(units: Sequence[int], first: int) -> int:
    """Of ``String`` or ``Arrays``, unit by unit, and Kafka's ``Utils.abs`` of it."""
    found = first
    for unit in units:
        found = (31 * found + unit) % 2**32
    signed = found - 2**32 if found >> 31 else found
    return 0 if signed == -(2**31) else abs(signed)


def utf16(text: str) -> list[int]:
    return [int(unit) for unit in np.frombuffer(text.encode("utf-16-le"), "<u2")]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20), st.text(max_size=9).map(str.encode)), min_size=1))
def test_columns_have_the_hashes_of_their_keys(keys: list[bytes | None]) -> None:
    column = pa.array([b"before", *keys], pa.large_binary()).slice(1)
    of_bytes, of_strings = bytes_hash_column(column).tolist(), string_hash_column(column).tolist()
    for row, key in enumerate(keys):
        if key is not None:
            signed = np.frombuffer(key, np.int8).tolist()
            assert (row, of_bytes[row]) == (row, java_hash(signed, 1))
            assert (row, of_strings[row]) == (row, java_hash(utf16(key.decode(errors="replace")), 0))


def test_a_character_is_not_joined_across_two_keys() -> None:
    halves = pa.array(["\u00fc".encode()[:1], "\u00fc".encode()[1:]], pa.large_binary())
    assert string_hash_column(halves).tolist() == [0xFFFD, 0xFFFD]
