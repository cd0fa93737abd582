"""Batches of kafka-python and aiokafka read, and this client's batches read by them, with every codec."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.arrow.encode import MeasuredRows
from spark_kafka_native._records.batch import CompressionType, set_offsets
from tests.support.records.other_codecs import PEERS, Peer
from tests.support.records.record_batches import as_rows
from tests.support.records.reference import CODECS, Record, numbered, rows
from tests.support.records.strategies import byte_strings, headers

BIG = numbered(
    [
        Record(b"big", b"0123456789" * 120_000, (("h", b"x" * 70_000),), 1_700_000_000_000),
        Record(None, None, (), 1_700_000_000_000),
        Record(b"", bytes(300_000), (("a", None), ("a", b"")), 1_700_000_100_000),
    ]
)

record_lists = st.lists(
    st.builds(
        Record,
        key=st.none() | byte_strings(40),
        value=st.none() | byte_strings(),
        headers=headers(),
        timestamp=st.integers(1, 2**42),
    ),
    min_size=1,
    max_size=100,
).map(numbered)


@pytest.fixture(params=PEERS, scope="module")
def peer(request: pytest.FixtureRequest) -> Peer:
    return Peer(request.param)


def assert_reads(peer: Peer, records: tuple[Record, ...], codec: int) -> None:
    decoded = decode(peer.write(records, codec), from_offset=0, until_offset=len(records))
    assert as_rows(decoded) == rows(records)


def assert_is_read(peer: Peer, records: tuple[Record, ...], codec: int, max_batch_bytes: int) -> None:
    columns = pa.record_batch(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array([list(record.headers) for record in records], pa.map_(pa.string(), pa.binary())),
            "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        }
    )
    batches = MeasuredRows(columns, 0).encode(compression=CompressionType(codec), max_batch_bytes=max_batch_bytes)
    for batch in batches:
        set_offsets(batch.buffer, 0, base_offset=batch.first_row, partition_leader_epoch=0)
    assert peer.read(b"".join(batch.buffer for batch in batches)) == list(records)


@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists)
@settings(max_examples=15)
def test_ours_reads_theirs(peer: Peer, codec: int, records: tuple[Record, ...]) -> None:
    assert_reads(peer, records, codec)


@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists, max_batch_bytes=st.integers(100, 20_000))
@settings(max_examples=15)
def test_theirs_reads_ours(peer: Peer, codec: int, records: tuple[Record, ...], max_batch_bytes: int) -> None:
    assert_is_read(peer, records, codec, max_batch_bytes)


@pytest.mark.parametrize("codec", CODECS)
def test_big_records_both_ways(peer: Peer, codec: int) -> None:
    assert_reads(peer, BIG, codec)
    assert_is_read(peer, BIG, codec, 1 << 20)
