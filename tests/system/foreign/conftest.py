import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _dropped_connections_are_collected() -> Iterator[None]:
    """kafka-python now and then drops a connection that was being made: a later file must not get the warning."""
    yield
    gc.collect()
