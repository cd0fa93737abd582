from collections.abc import AsyncIterator

import pytest

from tests.support.broker.connection_client import Client


@pytest.fixture
async def closed_clients() -> AsyncIterator[None]:
    """Close the connections of ``Client`` at the end of the test."""
    yield
    while Client.opened:
        Client.opened.pop().close()
