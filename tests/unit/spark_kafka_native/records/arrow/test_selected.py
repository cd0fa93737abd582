"""Selected batches as numbers: what is added comes back by rows and by columns."""

from dataclasses import replace

import pytest

from spark_kafka_native.records.arrow.selected import Part, SelectedBatch
from spark_kafka_native.records.batch import read_header
from spark_kafka_native.records.legacy import read_message
from tests.support.message_sets import message_set
from tests.support.reference_records import GZIP, Batch, Record, numbered, write_batch

BATCH = Batch(records=numbered([Record(timestamp=50)] * 2, 7), base_offset=7, last_offset_delta=4)


@pytest.mark.parametrize(
    ("batch", "row"),
    [
        (BATCH, SelectedBatch(0, 100, 14, 2, 7, 4, 50, 0, 39)),
        (replace(BATCH, codec=GZIP), SelectedBatch(1, 100, 14, 2, 7, 4, 50, 0, 39)),
        (replace(BATCH, log_append_time=60), SelectedBatch(0, 100, 14, 2, 7, 4, 60, 1, 39)),
    ],
)
def test_rows_and_columns(batch: Batch, row: SelectedBatch) -> None:
    part = Part(is_old=False)
    for start in (100, 200):
        part.add(read_header(write_batch(batch)), 39, start, 14)
    assert list(part) == [row, row._replace(start=200)]
    columns = part.columns()
    assert columns._fields == SelectedBatch._fields
    assert [column.tolist() for column in columns] == [
        [one, other] for one, other in zip(row, row._replace(start=200), strict=True)
    ]


def test_messages_without_times() -> None:
    part = Part(is_old=True)
    part.add(read_message(bytes(message_set(b"x", magic=0))), 0, 0, 10)
    assert [row.time_type for row in part] == [-1]


def test_none() -> None:
    part = Part(is_old=False)
    assert list(part) == []
    assert [column.tolist() for column in part.columns()] == [[]] * 9
