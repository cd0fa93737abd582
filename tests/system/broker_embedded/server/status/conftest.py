from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._server.status import record_reader
from broker_embedded.testing import EmbeddedBroker
from tests.support.broker.status_page import SETTINGS, Page, filled_broker


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that reads records has a low priority, and other tests run at the same time."""
    monkeypatch.setattr(record_reader, "_PAGE_S", 600.0)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with filled_broker(tmp_path_factory.mktemp("status") / "data") as broker:
        yield Page(broker)


@pytest.fixture
def own_page(tmp_path: Path) -> Iterator[Page]:
    """The page of a broker that a test changes."""
    with EmbeddedBroker(tmp_path, topics={"t": 1}, settings=SETTINGS) as broker:
        yield Page(broker)
