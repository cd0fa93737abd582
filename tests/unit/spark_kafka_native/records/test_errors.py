import pickle

import pytest

from spark_kafka_native._records.errors import (
    CorruptBatch,
    IncompleteBatch,
    InvalidMessageSet,
    OldFormatBatch,
    UnreadableBatch,
)


def test_the_message_has_every_known_position() -> None:
    error = CorruptBatch("bad", position=5, file="0.log", base_offset=7, record_index=0)
    assert str(error) == "bad (file 0.log, position 5, base offset 7, record 0)"
    assert str(CorruptBatch("bad")) == "bad"


@pytest.mark.parametrize("kind", [UnreadableBatch, CorruptBatch, IncompleteBatch, InvalidMessageSet, OldFormatBatch])
def test_errors_can_be_pickled(kind: type[UnreadableBatch]) -> None:
    error = kind("bad", position=5, file="0.log", base_offset=7, record_index=1)
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), back.detail) == (kind, str(error), "bad")
    assert (back.position, back.file, back.base_offset, back.record_index) == (5, "0.log", 7, 1)


def test_placing_adds_what_is_not_known_yet() -> None:
    bare = IncompleteBatch("cut").placed(start=100, base_offset=3)
    assert (type(bare), bare.position, bare.base_offset, bare.file) == (IncompleteBatch, 100, 3, None)
    placed = CorruptBatch("bad", position=5, base_offset=7, record_index=2).placed(
        start=100, file="0.log", base_offset=8, record_index=9
    )
    assert str(placed) == "bad (file 0.log, position 105, base offset 7, record 2)"
