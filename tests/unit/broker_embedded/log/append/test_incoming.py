"""Messages under one header, and refusals that name records."""

import copy
from array import array

import pytest

from broker_embedded.log.append.incoming import IncomingBatch, InvalidRecords, RecordError, as_one_batch, refuse
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.records.batch import CompressionType
from spark_kafka_native.records.formats import iter_any
from tests.support.batches import NOW_MS
from tests.support.message_sets import message_set, messages_in


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_messages_under_one_header(magic: int, codec: CompressionType) -> None:
    raw = message_set(b"a", b"b", b"c", magic=magic, compression=codec, timestamps=[5, 9, 7])
    found = list(iter_any(raw))
    assert len(messages_in(raw)) == 3
    batch = as_one_batch(found[0][1], [position for position, _ in found], len(raw), 3, 9)
    assert (batch.position, batch.header.size_in_bytes) == (0, len(raw))
    assert (batch.header.last_offset_delta, batch.header.records_count) == (2, 3)
    assert batch.header.max_timestamp == (9 if magic else -1)
    assert batch.messages.tolist() == [position for position, _ in found]
    moved = batch.moved(100)
    assert moved == IncomingBatch(100, batch.header, array("q", (position + 100 for position, _ in found)))


def test_a_refusal_names_the_partition() -> None:
    with pytest.raises(KafkaError) as caught:
        refuse(ErrorCode.INVALID_RECORD, "t-0", "so it is")
    assert (caught.value.code, caught.value.detail) == (ErrorCode.INVALID_RECORD, "t-0: so it is")


def test_records_to_blame_survive_copying() -> None:
    error = InvalidRecords(ErrorCode.INVALID_TIMESTAMP, "t-0: no", [RecordError(3, f"{NOW_MS} is late")])
    again = copy.copy(error)
    assert again.record_errors == error.record_errors == (RecordError(3, f"{NOW_MS} is late"),)
    assert "INVALID_TIMESTAMP" in str(again)
