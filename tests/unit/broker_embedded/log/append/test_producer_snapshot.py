import struct
from dataclasses import replace

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._log.append.producer_snapshot import CorruptSnapshot, decode, decode_entries, encode
from broker_embedded._log.append.producer_state import BatchMetadata, ProducerEntry

ENTRY = ProducerEntry(
    producer_id=2**40,
    epoch=3,
    batches=(BatchMetadata(9, 109, 9, 5000), BatchMetadata(19, 119, 9, 5000)),
    coordinator_epoch=7,
    transaction_first_offset=100,
    seen_ms=5000,
)


def sealed(body: bytes, version: int = 1) -> bytes:
    return struct.pack(">hI", version, crc32c(body)) + body


def test_bytes_are_kafkas() -> None:
    bare = ProducerEntry(producer_id=5, epoch=0, seen_ms=4000)
    body = struct.pack(">i", 3)
    body += struct.pack(">qhiqiqiq", 2**40, 3, 9, 109, 9, 5000, 7, 100)
    body += struct.pack(">qhiqiqiq", 2**40, 3, 19, 119, 9, 5000, 7, 100)
    body += struct.pack(">qhiqiqiq", 5, 0, -1, -1, 0, 4000, -1, -1)
    assert encode([]) == sealed(bytes(4))
    assert decode(encode([])) == []
    assert encode([ENTRY, bare]) == sealed(body)
    assert decode(sealed(body)) == [ENTRY, bare]
    assert decode_entries(sealed(body)) == [*(replace(ENTRY, batches=(batch,)) for batch in ENTRY.batches), bare]


def test_entries_of_another_epoch_replace_those_before() -> None:
    body = struct.pack(">i", 2)
    body += struct.pack(">qhiqiqiq", 1, 0, 9, 109, 9, 5000, -1, -1)
    body += struct.pack(">qhiqiqiq", 1, 1, 4, 209, 4, 6000, -1, -1)
    (entry,) = decode(sealed(body))
    assert (entry.epoch, entry.batches) == (1, (BatchMetadata(4, 209, 4, 6000),))


batches = st.builds(
    BatchMetadata,
    last_sequence=st.integers(0, 2**31 - 1),
    last_offset=st.integers(0, 2**60),
    offset_delta=st.integers(0, 2**31 - 1),
    timestamp=st.just(77),
)
entries = st.builds(
    ProducerEntry,
    producer_id=st.integers(0, 2**62),
    epoch=st.integers(0, 2**15 - 1),
    batches=st.lists(batches, max_size=5).map(tuple),
    coordinator_epoch=st.integers(-1, 2**31 - 1),
    transaction_first_offset=st.none() | st.integers(0, 2**60),
    seen_ms=st.just(77),
)


@given(st.lists(entries, max_size=5, unique_by=lambda entry: entry.producer_id))
def test_snapshots_survive_encoding(written: list[ProducerEntry]) -> None:
    assert decode(encode(written)) == written


def test_every_changed_byte_is_an_error() -> None:
    whole = encode([ENTRY])
    for length in range(len(whole)):
        with pytest.raises(CorruptSnapshot):
            decode(whole[:length])
    for at in range(len(whole)):
        with pytest.raises(CorruptSnapshot):
            decode(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(CorruptSnapshot):
        decode(whole + b"\0")


def test_a_count_that_does_not_fit_is_noticed_though_the_crc_does() -> None:
    with pytest.raises(CorruptSnapshot, match="do not hold 5 entries"):
        decode(sealed(struct.pack(">i", 5)))
    with pytest.raises(CorruptSnapshot, match="version 2 is not 1"):
        decode(sealed(bytes(4), version=2))
