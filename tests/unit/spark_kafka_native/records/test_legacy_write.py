import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_native._records.batch import CompressionType, TimestampType
from spark_kafka_native._records.errors import OversizedBatch
from spark_kafka_native._records.legacy import CODECS, read_message
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.record import NO_HEADERS, LogRecord
from tests.support.records.message_sets import messages_in
from tests.support.records.other_codecs import PEERS, LegacyPeer
from tests.support.records.strategies import ascending, byte_strings, log_records

MAGICS = (0, 1)

record_lists = log_records(byte_strings(), st.just(NO_HEADERS), max_size=40)


def as_stored(records: list[LogRecord], magic: int) -> list[LogRecord]:
    return records if magic else [record._replace(timestamp=-1) for record in records]


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists, first=st.integers(-1, 2**40))
@settings(max_examples=20)
def test_message_sets_are_read_back(magic: int, codec: CompressionType, records: list[LogRecord], first: int) -> None:
    wanted = ascending(records, first)
    raw = write_message_set(wanted, magic=magic, compression=codec)
    assert messages_in(raw) == as_stored(wanted, magic)


@pytest.fixture(params=PEERS, scope="module")
def peer(request: pytest.FixtureRequest) -> LegacyPeer:
    return LegacyPeer(request.param)


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists)
@settings(max_examples=10)
def test_theirs_reads_ours(peer: LegacyPeer, magic: int, codec: CompressionType, records: list[LogRecord]) -> None:
    if not peer.knows(magic, codec):
        return
    wanted = ascending(records, 99)
    raw = bytes(write_message_set(wanted, magic=magic, compression=codec))
    assert peer.read(raw) == as_stored(wanted, magic)


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists)
@settings(max_examples=10)
def test_ours_reads_theirs(peer: LegacyPeer, magic: int, codec: CompressionType, records: list[LogRecord]) -> None:
    if not peer.knows(magic, codec):
        return
    wanted = [record._replace(offset=index) for index, record in enumerate(records)]
    assert messages_in(peer.write(wanted, magic, codec)) == as_stored(wanted, magic)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_wrapper_has_the_largest_time_and_the_last_offset(codec: CompressionType) -> None:
    records = [LogRecord(5, 10, None, b"a"), LogRecord(9, 30, None, b"b"), LogRecord(12, 20, None, b"c")]
    header = read_message(write_message_set(records, magic=1, compression=codec))
    assert (header.base_offset, header.max_timestamp) == (12, 30)
    stamped = [record._replace(timestamp=77) for record in records]
    raw = write_message_set(stamped, magic=1, compression=codec, timestamp_type=TimestampType.LOG_APPEND_TIME)
    header = read_message(raw)
    assert (header.max_timestamp, header.timestamp_type) == (77, TimestampType.LOG_APPEND_TIME)


@pytest.mark.parametrize("magic", MAGICS)
def test_there_is_no_zstd(magic: int) -> None:
    with pytest.raises(ValueError, match=f"no zstd in message format v{magic}"):
        write_message_set([LogRecord(0, 0, None, b"")], magic=magic, compression=CompressionType.ZSTD)


def test_a_level_that_the_codec_does_not_have() -> None:
    with pytest.raises(ValueError, match="compression level 10 of gzip"):
        write_message_set([LogRecord(0, 0, None, b"")], magic=1, compression=CompressionType.GZIP, level=10)


@pytest.mark.parametrize("codec", CODECS)
def test_no_messages_are_no_bytes(codec: CompressionType) -> None:
    assert write_message_set([], magic=1, compression=codec) == b""


@pytest.mark.parametrize("codec", CODECS)
def test_writing_stops_soon_after_the_limit(codec: CompressionType) -> None:
    chance = random.Random(1)
    taken = []

    def endless() -> Iterator[LogRecord]:
        for offset in itertools.count():
            taken.append(offset)
            yield LogRecord(offset, 0, None, chance.randbytes(1000))

    with pytest.raises(OversizedBatch, match=r"the batch has at least \d+ bytes, 200000 are allowed"):
        write_message_set(endless(), magic=1, compression=codec, max_bytes=200_000)
    assert len(taken) < 1000


def test_headers_are_left_out() -> None:
    record = LogRecord(0, 5, b"k", b"v", b"\x02\x02h\x02v")
    assert messages_in(write_message_set([record], magic=1)) == [LogRecord(0, 5, b"k", b"v")]
