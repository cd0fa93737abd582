import json
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from dirty_equals import IsList

from broker_embedded._server.status import worker_process
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._records.confluent_header import build_header
from tests.support.broker.status_page import (
    AVRO_SCHEMA,
    MARKUP,
    SETTINGS,
    TIME_MS,
    VIEWS,
    Answer,
    Page,
    write,
)


def record(page: Page, topic: str, offset: int, **fields: object) -> dict[str, Any]:
    """One record."""
    rows = page.row("records", topic=topic, offset=offset, limit=1, **fields)["rows"]
    assert [row["offset"] for row in rows] == [offset]
    found: dict[str, Any] = rows[0]
    return found


# --- records ----------------------------------------------------------------------------------------------------------


def test_records_of_a_partition(page: Page) -> None:
    answer = page.row("records", topic="views", partition=1, limit=2)
    end = VIEWS // 3
    assert (answer["log_start_offset"], answer["high_watermark"], answer["next_offset"]) == (0, end, end)
    last = answer["rows"][-1]
    assert (last["offset"], last["timestamp"], last["timestamp_type"]) == (end - 1, TIME_MS + 1000 * 298, "CreateTime")
    assert last["key"] == {"size": 7, "text": "user-18"}
    assert json.loads(last["value"]["text"])["id"] == 9007199254740993 + 298
    assert last["headers"] == [
        {"key": {"size": 5, "text": "trace"}, "value": {"size": 3, "text": "298"}},
        {"key": {"size": 4, "text": "none"}, "value": None},
    ]
    assert (last["header_count"], last["transaction"], last["control"], last["producer"]) == (2, None, None, None)


def test_a_search_continues_at_the_next_offset(page: Page) -> None:
    offsets: list[int] = []
    following = 0
    while following < VIEWS // 3:
        answer = page.row("records", topic="views", offset=following, limit=30)
        offsets += [row["offset"] for row in answer["rows"]]
        assert answer["next_offset"] > following
        following = answer["next_offset"]
    assert offsets == list(range(VIEWS // 3))


def test_records_are_found_by_time_and_by_key(page: Page) -> None:
    wanted = TIME_MS + 1000 * 150
    rows = page.row("records", topic="views", partition=0, timestamp=wanted, limit=1)["rows"]
    assert [(row["offset"], row["timestamp"]) for row in rows] == [(50, wanted)]
    assert page.row("records", topic="views", timestamp=TIME_MS * 2)["rows"] == []
    found = page.row("records", topic="views", key="user-6")
    assert [row["offset"] for row in found["rows"]] == [number // 3 for number in range(6, VIEWS, 60)]
    assert found["next_offset"] == VIEWS // 3
    assert page.row("records", topic="views", key="user-6", offset=50, limit=1)["rows"][0]["offset"] == 62
    assert page.row("records", topic="views", key="user-20")["rows"] == []


def test_a_time_that_cannot_be_looked_up_is_a_conflict(own_page: Page) -> None:
    write(own_page, b"x" * 1000, **{"compression.type": "zstd"})
    (file,) = own_page.broker.log_directory.glob("t-0/*.log")
    with file.open("r+b") as stored:
        stored.seek(-5, os.SEEK_END)
        stored.write(b"\xff" * 5)
    status, problem = own_page.problem("records", topic="t", timestamp=0)
    assert status == 409
    assert problem.startswith("the time cannot be looked up; start at an offset: ")
    assert "t-0" in problem


def test_offsets_outside_of_the_log_are_moved_into_it(page: Page) -> None:
    assert page.row("records", topic="views", offset=10**12)["offset"] == VIEWS // 3
    assert page.row("records", topic="empty")["rows"] == []
    assert page.row("records", topic="views", last=10**9, limit=1)["rows"][0]["offset"] == 0


def test_bytes_that_are_no_text_are_in_base64_and_long_ones_are_shortened(page: Page) -> None:
    assert record(page, "binary", 0)["key"] == {"size": 2, "base64": "/wA="}
    with_markup = record(page, "binary", 1)
    assert (with_markup["key"], with_markup["value"]) == ({"size": len(MARKUP), "text": MARKUP}, None)
    shortened = record(page, "binary", 2, bytes=101)["value"]
    assert shortened == {"size": 200_000, "text": "é" * 50}  # the 51st character is cut in two
    assert page.row("records", topic="binary")["max_bytes"] == 1_048_576
    assert record(page, "binary", 2, bytes=1_048_576)["value"]["text"] == "é" * 100_000


def test_records_show_the_outcome_of_their_transaction_and_markers(page: Page) -> None:
    rows = page.row("records", topic="orders")["rows"]
    assert [(row["transaction"], row["control"]) for row in rows] == [
        ("committed", None),
        ("committed", None),
        (None, "COMMIT"),
        ("aborted", None),
        ("aborted", None),
        (None, "ABORT"),
        ("open", None),
        ("open", None),
    ]
    assert [row["value"]["text"] for row in rows if row["transaction"]] == [
        "committed",
        "committed",
        "aborted",
        "aborted",
        "open",
        "open",
    ]
    assert page.row("records", topic="orders", offset=4, limit=1)["rows"][0]["transaction"] == "aborted"


# --- Avro -------------------------------------------------------------------------------------------------------------


def with_schema(page: Page, schema: object, framing: str = "none", topic: str = "avro") -> Answer:
    body = {"topic": topic, "avro_schema": json.dumps(schema), "avro_framing": framing}
    return page.ask("api/records", method="POST", body=body)


def decoded(page: Page, schema: object, framing: str = "none", topic: str = "avro") -> list[dict[str, Any]]:
    answer = with_schema(page, schema, framing, topic)
    assert answer.status == 200, answer.body
    return [row["value"]["avro"] for row in answer.row["rows"] if row["value"]]


def test_avro_values_are_decoded_with_the_schema_of_the_request(page: Page) -> None:
    plain = decoded(page, AVRO_SCHEMA)
    assert [json.loads(value["json"]) for value in plain[::2]] == [
        {"id": number, "item": "tea", "raw": "0xff01"} for number in range(3)
    ]
    assert all("problem" in value for value in plain[1::2])
    framed = decoded(page, AVRO_SCHEMA, "confluent")
    assert [json.loads(value["json"])["id"] for value in framed[1::2]] == [0, 1, 2]
    with_other_magic = decoded(page, "string", "confluent", topic="binary")
    assert with_other_magic[1] == {"problem": "it has no header of Confluent's wire format"}


def test_avro_values_with_the_guid_of_a_schema_are_decoded(own_page: Page) -> None:
    write(own_page, build_header(UUID("89791762-2336-4186-9674-299b90a802e2")) + b"\2x")
    assert decoded(own_page, "string", "confluent", topic="t") == [{"json": '"x"'}]


def test_an_invalid_schema_is_an_error(page: Page) -> None:
    answer = with_schema(page, {"type": "nothing"})
    assert (answer.status, answer.row) == (
        400,
        {"problem": "avro_schema: it is not an Avro schema: {'type': 'nothing'}"},
    )
    answer = page.ask("api/records", method="POST", body={"topic": "avro", "avro_schema": "{"})
    assert answer.status == 400
    assert answer.row["problem"].startswith("avro_schema: it is not an Avro schema: Expecting property name")


def test_a_schema_comes_by_post_which_other_sites_cannot_send(page: Page) -> None:
    problem = "avro_schema: send the fields as JSON in the body of a POST"
    assert page.problem("records", topic="avro", avro_schema='"bytes"') == (400, problem)


HOSTILE = {
    "memory": (
        {"type": "array", "items": "null"},
        b"\xfe\xff\xff\xff\xff\xff\xff\x7f" + b"\0",  # more items than fit into memory, of no bytes each
        ["the batch at offset 0 is shown without the Avro schema: it cannot be read within 256 MiB of memory"],
    ),
    "stack": (
        {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]},
        b"\2" * 900_000 + b"\0",
        IsList(length=(0, 1)),  # a Python that bounds the depth of C calls has none
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_value_that_breaks_the_decoder_does_not_break_the_broker(
    own_page: Page, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The limit of memory is low, because to allocate 1 GiB takes a minute when other tests use the processors."""
    monkeypatch.setattr(worker_process, "MEMORY_BYTES", 256 * 1024 * 1024)
    schema, value, problems = HOSTILE[kind]
    write(own_page, value)
    answer = with_schema(own_page, schema, topic="t")
    assert (answer.status, answer.row["next_offset"]) == (200, 1)
    assert answer.row["problems"] == problems
    (row,) = answer.row["rows"]
    assert "json" not in row["value"].get("avro", {})
    write(own_page, b"\0")
    assert own_page.row("records", topic="t", offset=1)["rows"][0]["value"]["size"] == 1


def test_values_that_are_too_large_are_not_decoded(tmp_path: Path) -> None:
    settings = SETTINGS | {"message.max.bytes": 4_000_000}
    with EmbeddedBroker(tmp_path, topics={"t": 1}, settings=settings) as broker:
        page = Page(broker)
        write(page, b"x" * 1_500_000, **{"message.max.bytes": 4_000_000})
        problem = "the value has 1500000 bytes, more than the 1048576 that are decoded"
        assert decoded(page, "bytes", topic="t") == [{"problem": problem}]


def test_without_fastavro_the_error_says_how_to_install_it(
    own_page: Page, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path_factory.mktemp("hidden")
    (hidden / "fastavro.py").write_text("raise ModuleNotFoundError('fastavro')")
    monkeypatch.syspath_prepend(hidden)
    write(own_page, b"x")
    answer = with_schema(own_page, "bytes", topic="t")
    assert (answer.status, answer.row) == (
        501,
        {"problem": "decoding Avro needs the package fastavro: run `pip install 'spark-kafka-native[avro]'`"},
    )
