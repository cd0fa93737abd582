import json

import pyarrow as pa
import pytest

from spark_kafka_native._jobs.page_views import CHUNK_ROWS, PAGES, page_views

START_MS = 1_700_000_000_000


def rows(count: int, **more: int) -> pa.Table:
    return pa.Table.from_batches(page_views(count, start_ms=START_MS, **more))


def test_the_same_seed_gives_the_same_events_and_another_seed_others() -> None:
    assert rows(500).equals(rows(500))
    assert not rows(500, seed=1).equals(rows(500))


def test_events_come_in_chunks_with_the_producers_columns() -> None:
    chunks = list(page_views(2 * CHUNK_ROWS + 1, start_ms=START_MS))
    assert [chunk.num_rows for chunk in chunks] == [CHUNK_ROWS, CHUNK_ROWS, 1]
    for chunk in chunks:
        assert chunk.schema.names == ["key", "value", "timestamp"]
        assert chunk.schema.types == [pa.binary(), pa.binary(), pa.int64()]
        assert not any(column.null_count for column in chunk.columns)


@pytest.mark.parametrize("count", [1, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1])
def test_all_page_view_events_differ(count: int) -> None:
    values = rows(count).column("value").to_pylist()
    assert len(values) == len(set(values)) == count


def test_no_events_give_no_chunks() -> None:
    assert list(page_views(0, start_ms=START_MS)) == []


def test_values_are_json_that_agrees_with_key_and_time() -> None:
    events = rows(CHUNK_ROWS + 50).to_pylist()
    for number, event in enumerate(events):
        view = json.loads(event["value"])
        assert view == {"event": number, "page": view["page"], "user": event["key"].decode()}
        assert view["page"] in PAGES
        assert event["timestamp"] == START_MS + number


def test_some_pages_are_more_popular_than_others() -> None:
    pages = [json.loads(event["value"])["page"] for event in rows(10_000).to_pylist()]
    counts = [pages.count(page) for page in PAGES]
    assert counts == sorted(counts, reverse=True)
    assert min(counts) > 0
