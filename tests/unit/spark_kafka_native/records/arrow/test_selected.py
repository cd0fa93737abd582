"""Selected batches as numbers."""

from dataclasses import replace

import pytest

from spark_kafka_native.records.arrow.selected import Part, SelectedBatch
from spark_kafka_native.records.batch import read_header
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
def test_a_batch_is_listed_as_numbers(batch: Batch, row: SelectedBatch) -> None:
    part = Part()
    for start in (100, 200):
        part.add(read_header(write_batch(batch)), 39, start, 14)
    assert list(part) == [row, row._replace(start=200)]
