"""``client-quotas.json``: what is written is read, and nothing else is taken for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded.metadata.files.metadata_file import MetadataFileError
from broker_embedded.metadata.files.quotas import QUOTAS
from broker_embedded.quotas.entities import CLIENT_ID, IP, USER, ClientQuotaEntity

NAMES = st.none() | st.text(min_size=1)
ENTITIES = st.builds(
    ClientQuotaEntity.of,
    st.dictionaries(st.sampled_from([USER, CLIENT_ID, IP]), NAMES, min_size=1).map(lambda parts: parts.items()),
)
VALUES = st.dictionaries(st.text(), st.floats(allow_nan=False), min_size=1)


@given(st.dictionaries(ENTITIES, VALUES))
def test_what_is_written_is_read(quotas: dict[ClientQuotaEntity, dict[str, float]]) -> None:
    assert QUOTAS.decode(QUOTAS.encode(quotas)) == quotas


def test_a_person_can_read_it() -> None:
    raw = QUOTAS.encode({ClientQuotaEntity.of([(USER, "ann"), (CLIENT_ID, None)]): {"producer_byte_rate": 1024.0}})
    assert raw == (
        b'{"version": 1,\n"quotas": [\n'
        b' {"entity": {"user": "ann", "client-id": null}, "values": {"producer_byte_rate": 1024.0}}]}\n'
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b"{}",
        b'{"version": 2, "quotas": []}',
        b'{"version": 1}',
        b'{"version": 1, "quotas": [], "more": 1}',
        b'{"version": 1, "quotas": [{"entity": {}}]}',
        b'{"version": 1, "quotas": [{"entity": {}, "values": {}, "more": 1}]}',
        b'{"version": 1, "quotas": [{"entity": 5, "values": {}}]}',
        b'{"version": 1, "quotas": [{"entity": {}, "values": {"a": "x"}}]}',
        b'{"version": 1, "quotas": [{"entity": {}, "values": {"a": 1%s}}]}' % (b"0" * 400),
        b"\xff\xfe",
    ],
)
def test_anything_else_is_an_error(raw: bytes) -> None:
    with pytest.raises(MetadataFileError):
        QUOTAS.decode(raw)


def test_every_cut_is_an_error() -> None:
    raw = QUOTAS.encode({ClientQuotaEntity.of([(USER, "ann")]): {"producer_byte_rate": 1.0}}).rstrip()
    for end in range(len(raw)):
        with pytest.raises(MetadataFileError):
            QUOTAS.decode(raw[:end])
