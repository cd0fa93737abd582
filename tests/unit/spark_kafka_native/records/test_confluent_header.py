from uuid import UUID

import pytest

from spark_kafka_native._records.confluent_header import build_header, header_size

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (build_header(7), 5),
        (build_header(7) + b"data", 5),
        (build_header(7)[:4], 0),
        (build_header(GUID), 17),
        (build_header(GUID) + b"data", 17),
        (build_header(GUID)[:16], 0),
        (b"\x02" + bytes(20), 0),
        (b"", 0),
    ],
)
def test_a_header_has_the_size_of_its_magic_byte(value: bytes, size: int) -> None:
    assert header_size(value) == size
