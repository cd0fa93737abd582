"""Ids as text."""

from uuid import UUID

import pytest

from spark_kafka_native.protocol.ids import format_id, new_id, parse_id

TOPIC_ID = UUID("62cec22a-8b0d-4d4f-9c3f-5d2f2d8c1a77")


def test_ids_have_kafkas_base64_form() -> None:
    assert format_id(TOPIC_ID) == "Ys7CKosNTU-cP10vLYwadw"
    assert parse_id("Ys7CKosNTU-cP10vLYwadw") == TOPIC_ID
    assert format_id(UUID(int=0)) == "A" * 22


@pytest.mark.parametrize("text", ["", "abc", "a", "A" * 21, "A" * 23])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no base64 id of 16 bytes"):
        parse_id(text)


def test_new_ids_do_not_look_like_options() -> None:
    assert not any(format_id(new_id()).startswith("-") for _ in range(200))
