from dataclasses import replace

import pytest

from broker_embedded._config.settings import LONG_MAX
from broker_embedded._log.append.producer_state import LastRecord
from broker_embedded._log.cleaner.batch_cleaner import BatchCleaner, CleanedBatch, Rules, control_type_of, keyed_offsets
from broker_embedded._log.cleaner.cleaned_transactions import CleanedTransactions
from broker_embedded._log.cleaner.offset_map import OffsetMap
from broker_embedded._log.transaction_index import AbortedTransaction
from spark_kafka_native._records.batch import CompressionType, CorruptBatch, TimestampType, read_header
from spark_kafka_native._records.control import ControlType
from spark_kafka_native._records.formats import iter_any, read_any
from spark_kafka_native._records.legacy import read_messages
from spark_kafka_native._records.legacy_write import write_message_set
from spark_kafka_native._records.record import LogRecord
from tests.support.records import reference
from tests.support.records.record_batches import marker

NOW = 1_700_000_000_000
RETENTION = 1000
PRODUCER = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 11}


def rules(latest_offset: int = 99) -> Rules:
    return Rules(
        now_ms=NOW,
        delete_retention_ms=RETENTION,
        latest_offset=latest_offset,
        until_offset=100,
        last_records={},
        old_horizon_ms=0,
    )


def cleaner(
    last_offsets: dict[bytes, int], *, by: Rules | None = None, transactions: CleanedTransactions | None = None
) -> BatchCleaner:
    offsets = OffsetMap(100)
    offsets.put_all(last_offsets.items())
    return BatchCleaner(offsets, transactions or CleanedTransactions(), by or rules())


def record(offset: int, key: bytes | None, value: bytes | None, timestamp: int = NOW) -> reference.Record:
    return reference.Record(key, value, (("h", b"x"),), timestamp, offset)


def batch(*records: reference.Record, **fields: object) -> bytes:
    fields = {"base_offset": records[0].offset, "partition_leader_epoch": 4, **fields}
    return reference.write_batch(reference.Batch(records=records, **fields))  # type: ignore[arg-type]  # typed by use


def removes(by: BatchCleaner, data: bytes) -> bool:
    return by.clean(data, read_any(data)) is None


def cleaned(by: BatchCleaner, data: bytes) -> CleanedBatch:
    found = by.clean(data, read_any(data))
    assert found is not None
    return found


def kept(by: BatchCleaner, data: bytes) -> reference.Batch:
    return reference.read_batch(bytes(cleaned(by, data).data))


THREE = (record(10, b"a", b"1", NOW), record(11, b"b", b"2", NOW + 5), record(12, b"c", b"3", NOW + 3))


@pytest.mark.parametrize("codec", reference.CODECS)
def test_only_the_last_record_of_each_key_is_kept_unchanged(codec: int) -> None:
    plain = reference.read_batch(batch(*THREE, **PRODUCER))
    found = kept(cleaner({b"a": 10, b"b": 50, b"c": 12}), reference.write_batch(replace(plain, codec=codec)))
    assert found == replace(plain, codec=codec, records=(THREE[0], THREE[2]))
    assert found.max_timestamp == NOW + 3


@pytest.mark.parametrize("codec", reference.CODECS)
def test_a_batch_that_keeps_all_is_not_touched(codec: int) -> None:
    data = batch(*THREE, codec=codec)
    found = cleaned(cleaner({b"a": 10, b"b": 11}), data)
    assert found.data is data
    assert (found.last_offset, found.max_timestamp, found.records_kept) == (12, NOW + 5, 3)


def test_a_batch_without_a_last_record_of_a_key_is_removed() -> None:
    assert removes(cleaner({b"a": 20, b"b": 20, b"c": 20}), batch(*THREE))
    assert removes(cleaner({b"a": 20}), batch(record(10, b"a", None)))


def test_records_without_a_key_go() -> None:
    found = kept(cleaner({}), batch(record(10, None, b"1"), record(11, b"", b"2")))
    assert [each.offset for each in found.records] == [11]


def test_records_that_the_offset_map_does_not_cover_are_kept() -> None:
    data = batch(record(10, b"a", b"1"), record(11, b"a", b"2"), record(12, None, b"3"), record(13, b"a", None))
    found = kept(cleaner({b"a": 11}, by=rules(latest_offset=11)), data)
    assert [each.offset for each in found.records] == [11, 12, 13]


def test_a_batch_that_was_compacted_before_keeps_its_ends() -> None:
    data = batch(record(10, b"a", b"1"), record(17, b"b", b"2"), base_offset=5, last_offset_delta=15)
    found = kept(cleaner({b"a": 99}), data)
    assert (found.base_offset, found.last_offset_delta, [each.offset for each in found.records]) == (5, 15, [17])


def test_the_brokers_time_stays_that_of_the_batch() -> None:
    found = kept(cleaner({b"b": 50}), batch(*THREE, log_append_time=NOW + 77))
    assert (found.log_append_time, found.max_timestamp) == (NOW + 77, NOW + 77)


@pytest.mark.parametrize("codec", reference.CODECS)
def test_a_tombstone_gets_a_horizon_at_first(codec: int) -> None:
    plain = reference.read_batch(batch(record(10, b"a", None), record(11, b"b", b"2", NOW + 5)))
    once = cleaned(cleaner({b"a": 10, b"b": 11}), reference.write_batch(replace(plain, codec=codec)))
    assert read_header(once.data).delete_horizon_ms == NOW + RETENTION
    assert reference.read_batch(bytes(once.data)) == replace(plain, codec=codec, base_timestamp=NOW + RETENTION)
    again = cleaned(cleaner({b"a": 10}), bytes(once.data))
    assert again.data == once.data


@pytest.mark.parametrize(("late_ms", "stays"), [(-1, True), (0, False), (1, False)])
def test_a_tombstone_goes_at_its_horizon(late_ms: int, stays: bool) -> None:
    data = batch(record(10, b"a", None), record(11, b"b", b"2", NOW + 5))
    once = cleaned(cleaner({b"a": 10}), data)
    later = cleaner({b"a": 10}, by=replace(rules(), now_ms=NOW + RETENTION + late_ms))
    found = kept(later, bytes(once.data))
    assert [each.offset for each in found.records] == ([10, 11] if stays else [11])
    assert found.records[-1].timestamp == NOW + 5
    assert found.base_timestamp == NOW + RETENTION


def test_a_tombstone_that_is_to_stay_for_ever_gets_no_horizon() -> None:
    data = batch(record(10, b"a", None), record(11, b"b", b"2"), record(12, b"c", b"3"))
    by = cleaner({}, by=replace(rules(), delete_retention_ms=LONG_MAX))
    found = cleaned(by, data)
    assert found.data is data
    some = kept(cleaner({b"b": 50}, by=replace(rules(), delete_retention_ms=LONG_MAX - NOW + 1)), data)
    assert ([each.offset for each in some.records], some.base_timestamp) == ([10, 12], NOW)


def emptied(data: bytes, by: Rules) -> reference.Batch | None:
    keys = {each.key: 90 for each in reference.read_batch(data).records if each.key is not None}
    return None if removes(cleaner(keys, by=by), data) else kept(cleaner(keys, by=by), data)


def test_the_last_batch_of_a_producer_keeps_its_header() -> None:
    data = batch(*THREE, codec=reference.GZIP, **PRODUCER)
    known = replace(rules(), last_records={7: LastRecord(last_offset=12, epoch=3)})
    expected = replace(reference.read_batch(data), records=(), codec=reference.NONE, base_timestamp=-1)
    assert emptied(data, known) == expected
    assert read_header(reference.write_batch(expected)).last_sequence == 13
    assert emptied(data, replace(known, last_records={7: LastRecord(last_offset=20, epoch=3)})) is None
    assert emptied(data, replace(known, last_records={8: LastRecord(last_offset=12, epoch=3)})) is None
    assert emptied(data, replace(known, last_records={7: LastRecord(last_offset=None, epoch=3)})) is None
    assert emptied(batch(*THREE), replace(known, last_records={-1: LastRecord(last_offset=12, epoch=-1)})) is None


def test_the_end_of_what_is_compacted_keeps_its_header() -> None:
    data = batch(*THREE, **PRODUCER)
    header_alone = replace(reference.read_batch(data), records=(), base_timestamp=-1)
    assert emptied(data, replace(rules(), until_offset=13)) == header_alone
    assert emptied(data, replace(rules(), until_offset=12)) is None
    again = reference.write_batch(header_alone)
    found = cleaned(cleaner({}, by=replace(rules(), until_offset=13)), again)
    assert found.data is again


def test_an_emptied_batch_goes_when_nothing_needs_it_any_more() -> None:
    data = batch(*THREE, **PRODUCER)
    known = replace(rules(), last_records={7: LastRecord(last_offset=12, epoch=3)})
    header_alone = cleaned(cleaner({b"a": 90, b"b": 90, b"c": 90}, by=known), data)
    assert (header_alone.records_kept, len(header_alone.data), header_alone.max_timestamp) == (0, 61, NOW + 5)
    again = cleaned(cleaner({}, by=known), bytes(header_alone.data))
    assert again.data == header_alone.data
    assert removes(cleaner({}), bytes(header_alone.data))


ABORTED = AbortedTransaction(producer_id=7, first_offset=10, last_offset=13, last_stable_offset=14)


def end_marker(kind: ControlType, offset: int) -> bytes:
    return bytes(marker(kind, 7, producer_epoch=3, timestamp_ms=NOW, base_offset=offset, partition_leader_epoch=4))


def amid(*aborted: AbortedTransaction) -> CleanedTransactions:
    transactions = CleanedTransactions()
    transactions.expect(aborted)
    return transactions


def test_aborted_records_go_whatever_their_keys() -> None:
    by = cleaner({b"a": 10}, transactions=amid(ABORTED))
    assert removes(by, batch(*THREE, transactional=True, **PRODUCER))
    stays = cleaned(by, end_marker(ControlType.ABORT, 13))
    assert stays.data == end_marker(ControlType.ABORT, 13)


def test_the_last_batch_of_an_aborting_producer_keeps_its_header() -> None:
    known = replace(rules(), last_records={7: LastRecord(last_offset=12, epoch=3)})
    by = cleaner({}, by=known, transactions=amid(ABORTED))
    found = kept(by, batch(*THREE, transactional=True, **PRODUCER))
    assert (found.records, found.transactional) == ((), True)


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_without_records_gets_a_horizon_and_then_goes(kind: ControlType) -> None:
    data = end_marker(kind, 13)
    once = cleaned(cleaner({}), data)
    assert read_header(once.data).delete_horizon_ms == NOW + RETENTION
    assert control_type_of(bytes(once.data), read_header(once.data)) is kind
    found = reference.read_batch(bytes(once.data))
    assert (found.control, found.records[0].timestamp) == (True, NOW)
    later = replace(rules(), now_ms=NOW + RETENTION)
    assert not removes(cleaner({}, by=replace(later, now_ms=NOW + RETENTION - 1)), bytes(once.data))
    assert removes(cleaner({}, by=later), bytes(once.data))


def test_the_only_marker_with_the_epoch_of_a_producer_keeps_its_header() -> None:
    known = replace(rules(), last_records={7: LastRecord(last_offset=None, epoch=3)})
    once = cleaned(cleaner({}, by=known), end_marker(ControlType.COMMIT, 13))
    later = replace(known, now_ms=NOW + RETENTION)
    found = kept(cleaner({}, by=later), bytes(once.data))
    assert (found.control, found.records, found.producer_id, found.producer_epoch) == (True, (), 7, 3)
    header_alone = reference.write_batch(found)
    assert control_type_of(header_alone, read_header(header_alone)) is None
    assert kept(cleaner({}, by=later), header_alone) == found
    fenced = replace(known, last_records={7: LastRecord(last_offset=None, epoch=4)})
    assert removes(cleaner({}, by=fenced), header_alone)


def test_committed_records_are_compacted_like_others() -> None:
    by = cleaner({b"b": 50})
    found = kept(by, batch(*THREE, transactional=True, **PRODUCER))
    assert ([each.offset for each in found.records], found.transactional) == ([10, 12], True)
    stays = cleaned(by, end_marker(ControlType.COMMIT, 13))
    assert stays.data == end_marker(ControlType.COMMIT, 13)


OLD = [LogRecord(10, NOW, b"a", b"1"), LogRecord(11, NOW + 5, b"b", None), LogRecord(12, NOW + 3, None, b"3")]
OLD_CODECS = [CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4]


def clean_old(by: BatchCleaner, data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    found = []
    for position, header in iter_any(data):
        result = by.clean(data[position : position + header.size_in_bytes], header)
        if result is not None:
            left = bytes(result.data)
            found += [message[:1] + message[2:4] for message in read_messages(left, 0, read_any(left))]
            assert result.last_offset == found[-1][0]
    return found


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_messages_of_old_formats(magic: int, codec: CompressionType) -> None:
    data = bytes(write_message_set(OLD, magic=magic, compression=codec))
    by = cleaner({b"a": 10, b"b": 11})
    by.at_segment(modified_ms=1)
    assert clean_old(by, data) == [(10, b"a", b"1"), (11, b"b", None)]
    assert by.records_read == 3
    by.at_segment(modified_ms=0)
    assert clean_old(by, data) == [(10, b"a", b"1")]
    assert clean_old(cleaner({b"a": 10, b"b": 11}, by=rules(latest_offset=9)), data) == [
        (message.offset, message.key, message.value) for message in OLD
    ]
    assert clean_old(cleaner({b"a": 50, b"b": 50}), data) == []


def test_a_wrapper_that_keeps_all_is_not_touched() -> None:
    data = bytes(write_message_set(OLD[:2], magic=1, compression=CompressionType.GZIP))
    found = cleaned(cleaner({}), data)
    assert (found.data is data, found.last_offset, found.records_kept) == (True, 11, 2)


def test_the_brokers_time_in_an_old_wrapper() -> None:
    same = [message._replace(timestamp=NOW) for message in OLD]
    data = bytes(
        write_message_set(same, magic=1, compression=CompressionType.GZIP, timestamp_type=TimestampType.LOG_APPEND_TIME)
    )
    found = cleaned(cleaner({b"b": 50}), data)
    header = read_any(found.data)
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW)


@pytest.mark.parametrize("codec", reference.CODECS)
def test_keys_for_the_map(codec: int) -> None:
    data = batch(*THREE, record(13, None, b"4"), record(14, b"a", None), codec=codec)
    assert list(keyed_offsets(data, read_header(data), 11)) == [(b"b", 11), (b"c", 12), (b"a", 14)]
    assert next(keyed_offsets(data, read_header(data), 0)) == (b"a", 10)


def test_keys_of_old_formats_for_the_map() -> None:
    data = bytes(write_message_set(OLD, magic=1, compression=CompressionType.GZIP))
    assert list(keyed_offsets(data, read_any(data), 11)) == [(b"b", 11)]


def test_a_batch_that_does_not_decompress() -> None:
    data = bytearray(batch(*THREE, codec=reference.GZIP))
    data[-5] ^= 0xFF
    with pytest.raises(CorruptBatch):
        cleaned(cleaner({}), bytes(data))
