from dataclasses import replace

import pyarrow as pa
import pytest

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.encoding import encode_rows, split_batch
from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.encode import MeasuredRows
from spark_kafka_native._records.arrow.schema import HEADERS
from spark_kafka_native._records.batch import read_header
from tests.support.records.record_batches import TIMESTAMP_MS

ROWS = pa.record_batch(
    {
        "key": pa.array([b"a", None, b"c", b"", b"e"], pa.binary()),
        "value": pa.array([b"1", b"2", None, b"x" * 500, b"5"], pa.binary()),
        "headers": pa.array([None, [{"key": "h", "value": b"v"}], None, [{"key": "n", "value": None}], None], HEADERS),
        "timestamp": pa.array([5, 4, TIMESTAMP_MS, 7, None], pa.int64()),
    }
)


def config(codec: str = "none") -> ClientConfig:
    return ClientConfig.parse({"bootstrap.servers": "a:1", "compression.type": codec})


@pytest.mark.parametrize(("count", "counts"), [(2, [3, 2]), (3, [3, 2]), (9, [1, 1, 1, 1, 1])])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_split_batch_has_the_same_records_in_smaller_batches(codec: str, count: int, counts: list[int]) -> None:
    columns = ("key", "value", "headers", "timestamp")
    (whole,) = encode_rows(MeasuredRows(ROWS, 99), config(codec), max_batch_bytes=10**6)
    assert read_header(whole.buffer).compression.name.lower() == codec
    whole.stamp(producer_id=1, producer_epoch=0, base_sequence=0)
    before = decode(whole.buffer, from_offset=0, until_offset=5, columns=columns).records
    pieces = split_batch(whole, config(codec), count)
    assert [piece.records_count for piece in pieces] == counts
    assert all(len(piece.buffer) < len(whole.buffer) for piece in pieces)
    for piece in pieces:
        piece.stamp(producer_id=1, producer_epoch=0, base_sequence=0)
    after = [
        decode(piece.buffer, from_offset=0, until_offset=piece.records_count, columns=columns).records
        for piece in pieces
    ]
    assert pa.Table.from_batches(after).to_pylist() == before.to_pylist()


def test_pieces_of_a_split_batch_have_about_the_same_size() -> None:
    rows = pa.record_batch({"value": pa.array([b"%0100d" % number for number in range(1000)])})
    (whole,) = encode_rows(MeasuredRows(rows, 99), config(), max_batch_bytes=10**6)
    pieces = split_batch(whole, config(), 7)
    assert sorted({piece.records_count for piece in pieces}) == [142, 143]
    assert [piece.first_row for piece in pieces] == [0, 142, 285, 428, 571, 714, 857]


@pytest.mark.parametrize("sizes", [[9_000, 1], [1, 9_000], [1, 9_000, 1, 1], [9_000, 1, 1], [1, 1, 9_000]])
@pytest.mark.parametrize("count", [2, 3, 50])
def test_a_batch_with_one_large_record_has_several_pieces(sizes: list[int], count: int) -> None:
    rows = pa.record_batch({"value": pa.array([b"x" * size for size in sizes])})
    (whole,) = encode_rows(MeasuredRows(rows, 99), config(), max_batch_bytes=10**6)
    pieces = split_batch(whole, config(), count)
    assert 2 <= len(pieces) <= count
    assert sum(piece.records_count for piece in pieces) == len(sizes)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batches_without_idempotence_are_sealed(codec: str) -> None:
    without_idempotence = replace(config(codec), enable_idempotence=False)
    (batch,) = encode_rows(MeasuredRows(ROWS, 99), without_idempotence, max_batch_bytes=10**6)
    assert decode(batch.buffer, from_offset=0, until_offset=5, columns=("value",)).records.num_rows == 5
