"""Page-view events for the quick start and the notebooks, made by column."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PAGES = ("/", "/docs", "/docs/install", "/docs/options", "/blog", "/pricing", "/about", "/search")
_WEIGHTS = np.array([30, 20, 14, 10, 9, 8, 5, 4]) / 100

CHUNK_ROWS = 10_000


def page_views(count: int, *, start_ms: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """``count`` events in chunks of ``CHUNK_ROWS``: key (binary), value (binary JSON), timestamp (int64, milliseconds).

    The key is the user's name; the value has the event's number, so that all records differ. Pages have different
    weights; timestamps increase by a millisecond from ``start_ms``. The same seed gives the same events.
    """
    random = np.random.default_rng(seed)
    pages = pa.array(PAGES)
    for first in range(0, count, CHUNK_ROWS):
        rows = min(CHUNK_ROWS, count - first)
        number = np.arange(first, first + rows)
        user = _text("user-", pa.array(random.integers(0, 5_000, rows)).cast(pa.string()))
        page = pages.take(pa.array(random.choice(len(PAGES), size=rows, p=_WEIGHTS), pa.int64()))
        value = _text('{"event": ', pa.array(number).cast(pa.string()), ', "page": "', page, '", "user": "', user, '"}')
        yield pa.record_batch(
            {
                "key": user.cast(pa.binary()),
                "value": value.cast(pa.binary()),
                "timestamp": pa.array(start_ms + number, pa.int64()),
            }
        )


def _text(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")
