import pickle

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_native._client.errors import FewerPartitionsThanTable
from spark_kafka_native._client.partitioning.bucket_table import BucketTable
from spark_kafka_native._client.partitioning.lookup import BucketTables
from spark_kafka_native._client.partitioning.partitioner_names import (
    Kind,
    LookupTableError,
    PartitionerError,
    TableLocation,
    check_partitioner,
)
from spark_kafka_native._client.partitioning.partitioners import Unassigned, make_partitioner

TABLE = BucketTable.create("t", 4)
TABLES = BucketTables(tables={"t": TABLE}, location="topic:lookup-tables", servers="a:9092")
KEYS = [b"key-%d" % number for number in range(100)]


def assign(keys: list[bytes | None] | None, *, partitions: int, available: list[int] | None = None) -> list[int]:
    rows = Unassigned(
        keys=None if keys is None else pa.array(keys, pa.large_binary()),
        sizes=np.full(5 if keys is None else len(keys), 10, np.int64),
        partitions=partitions,
        available=list(range(partitions)) if available is None else available,
    )
    return [int(number) for number in make_partitioner(TABLES, 10**6, first=1, topic="t").assign(rows)]


def test_keys_go_by_the_table_also_after_partitions_were_added() -> None:
    expected = TABLE.partitions_of(pa.array(KEYS, pa.large_binary())).tolist()
    assert assign([*KEYS], partitions=4) == expected
    assert assign([*KEYS], partitions=6) == expected
    assert set(expected) == {0, 1, 2, 3}


def test_rows_without_a_key_go_to_available_partitions() -> None:
    assert assign(None, partitions=6, available=[0, 5]) == [5] * 5
    assert assign([None, *KEYS, None], partitions=6, available=[5])[:: len(KEYS) + 1] == [5, 5]


def test_fewer_partitions_than_the_table_has() -> None:
    with pytest.raises(
        FewerPartitionsThanTable, match=r"^topic t has 3 partitions, and its look-up table in topic:lookup-tables"
    ):
        assign([*KEYS], partitions=3)
    with pytest.raises(FewerPartitionsThanTable) as caught:
        TABLES.check_partitions("t", 1)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_rows_without_a_key_do_not_need_the_partitions_of_the_table() -> None:
    assert assign(None, partitions=3, available=[2]) == [2] * 5
    assert assign([None, None], partitions=3, available=[2]) == [2, 2]
    assert assign([], partitions=3) == []
    with pytest.raises(FewerPartitionsThanTable):
        assign([None, b"a"], partitions=3)


def test_a_topic_without_a_table_names_the_command() -> None:
    command = "pykafka lookup-table --bootstrap-server a:9092 --lookup-table topic:lookup-tables --create --topic u"
    with pytest.raises(LookupTableError, match=f"^topic u has no table in topic:lookup-tables; create it: {command}$"):
        make_partitioner(TABLES, 100, topic="u")


def test_the_name_alone_is_no_partitioner() -> None:
    assert check_partitioner("Lookup") == "lookup"
    with pytest.raises(PartitionerError, match="partitioner lookup needs tables"):
        make_partitioner("lookup", 100)


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("topic:lookup-tables", Kind.TOPIC, "lookup-tables"),
        (" file:/var/t.json ", Kind.FILE, "/var/t.json"),
        ("file:///var/t.json", Kind.FILE, "/var/t.json"),
    ],
)
def test_locations(text: str, kind: Kind, name: str) -> None:
    location = TableLocation.parse(text)
    assert (location.kind, location.name, str(location)) == (kind, name, f"{kind.value}:{name}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("lookup-tables", "must be topic:NAME or file:/PATH"),
        ("s3:/x", "must be topic:NAME or file:/PATH"),
        ("topic:", "topic name is empty"),
        ("topic:a b", "has characters other than"),
        ("topic:__consumer_offsets", "is an internal topic of Kafka"),
        ("file:tables.json", "must have an absolute path"),
        ("file://host/tables.json", "must have an absolute path"),
    ],
)
def test_locations_that_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        TableLocation.parse(text)
