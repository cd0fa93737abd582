import pyarrow as pa

from spark_kafka_native._client.consumer.stateless_fetch import FetchedRecords
from spark_kafka_native._record_clients.consumer.fetches import FetchRequest, FetchResult
from spark_kafka_native._records.arrow.schema import ALL, schema_of
from spark_kafka_native.clients import ConsumerRecord


def result_of(rows: list[dict[str, object]]) -> FetchResult:
    fetched = FetchedRecords(
        records=pa.RecordBatch.from_pylist(rows, schema_of(ALL)),
        next_offset=9,
        high_watermark=9,
        last_stable_offset=9,
        log_start_offset=0,
    )
    return FetchResult.of(FetchRequest("t", 3, 0), fetched)


def row(offset: int, **fields: object) -> dict[str, object]:
    return {"offset": offset, "timestamp": offset, "timestamp_type": 0, **fields}


def test_records_have_what_the_columns_have() -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    result = result_of(
        [
            row(5, key=b"k", value=b"v", headers=headers),
            row(6, key=None, value=None),
            row(7, key=b"", value=b"", headers=[], timestamp_type=1),
            row(8, headers=headers[:1], timestamp=-1),
        ]
    )
    records = result.records
    assert records == [
        ConsumerRecord("t", 3, 5, 5, False, b"k", b"v", (("a", b"1"), ("a", None))),
        ConsumerRecord("t", 3, 6, 6, False, None, None, ()),
        ConsumerRecord("t", 3, 7, 7, True, b"", b"", ()),
        ConsumerRecord("t", 3, 8, None, False, None, None, (("a", b"1"),)),
    ]
    assert result.records is records


def test_records_without_any_headers() -> None:
    assert [record.headers for record in result_of([row(1), row(2)]).records] == [(), ()]
    assert result_of([]).records == []
