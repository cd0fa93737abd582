from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._jobs.comparison import Comparison, PageCount, compare

Record = tuple[bytes | None, bytes | None, int]

EVENTS: list[Record] = [(b"ann", b"1", 0), (b"ann", b"2", 0), (b"bob", b"3", 1), (None, b"4", 1), (b"eve", None, 1)]
COUNTS: list[Record] = [(b"/", b"1", 0), (b"/docs", b"2", 1), (b"/", b"3", 0)]
SENT = {"/": 3, "/docs": 2}


def perfect_but(**changed: object) -> Comparison:
    right = {
        "rows_in": 5,
        "rows_out": 5,
        "lost": 0,
        "duplicated": 0,
        "pages": (PageCount(page="/", sent=3, counted=3), PageCount(page="/docs", sent=2, counted=2)),
    }
    return Comparison(**(right | changed))  # type: ignore[arg-type]  # values of many types


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows_out": 6},
        {"rows_in": 6},
        {"lost": 1},
        {"duplicated": 1},
        {"pages": (PageCount(page="/", sent=3, counted=2),)},
        {"pages": (PageCount(page="/", sent=3, counted=None),)},
        {"pages": (PageCount(page="/", sent=0, counted=1),)},
    ],
    ids=str,
)
def test_comparison_is_perfect_without_differences(wrong: dict[str, object]) -> None:
    assert perfect_but().perfect
    assert not perfect_but(**wrong).perfect


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker(topics={"nothing": 1}, settings={"num.partitions": 2}) as broker:
        fill(broker.bootstrap_servers, "events", EVENTS)
        fill(broker.bootstrap_servers, "copy", EVENTS)
        fill(broker.bootstrap_servers, "counts", COUNTS)
        yield broker.bootstrap_servers


def fill(servers: str, topic: str, records: list[Record]) -> None:
    keys, values, partitions = zip(*records, strict=True)
    columns: list[Any] = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(partitions, pa.int32())]
    rows = pa.RecordBatch.from_arrays(columns, names=["key", "value", "partition"])
    with Producer(ClientConfig.parse({"bootstrap.servers": servers})) as producer:
        producer.send(topic, rows)


@pytest.mark.spark
def test_a_true_copy_is_perfect(spark: SparkSession, servers: str) -> None:
    assert compare(spark, servers, events="events", copy="copy", counts="counts", sent=SENT) == perfect_but()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "copied", "rows_out", "lost", "duplicated"),
    [
        ("one-lost", [*EVENTS[:3], EVENTS[4]], 4, 1, 0),
        ("one-twice", [*EVENTS, EVENTS[0]], 6, 0, 1),
        ("one-lost-another-twice", [*EVENTS[1:], EVENTS[4]], 5, 1, 1),
        ("one-changed-another-moved", [(b"ann", b"1", 1), *EVENTS[1:4], (b"eve", b"", 1)], 5, 2, 2),
    ],
)
def test_lost_and_duplicated_records_are_counted(
    spark: SparkSession, servers: str, name: str, copied: list[Record], rows_out: int, lost: int, duplicated: int
) -> None:
    fill(servers, name, copied)
    found = compare(spark, servers, events="events", copy=name, counts="counts", sent=SENT)
    assert found == perfect_but(rows_out=rows_out, lost=lost, duplicated=duplicated)
    assert not found.perfect


@pytest.mark.spark
def test_wrong_missing_and_extra_counts_are_found(spark: SparkSession, servers: str) -> None:
    sent = {"/": 3, "/docs": 5, "/blog": 1}
    fill(servers, "counts-2", [*COUNTS, (b"/new", b"7", 0)])
    found = compare(spark, servers, events="events", copy="copy", counts="counts-2", sent=sent)
    assert found.wrong_counts == (
        PageCount(page="/docs", sent=5, counted=2),
        PageCount(page="/blog", sent=1, counted=None),
        PageCount(page="/new", sent=0, counted=7),
    )


@pytest.mark.spark
def test_empty_topics_have_no_records_to_compare(spark: SparkSession, servers: str) -> None:
    found = compare(spark, servers, events="nothing", copy="nothing", counts="nothing", sent={})
    assert found == perfect_but(rows_in=0, rows_out=0, pages=())
