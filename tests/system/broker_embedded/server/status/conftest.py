import pytest

from broker_embedded._server.status import record_reader


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that reads records has a low priority, and other tests run at the same time."""
    monkeypatch.setattr(record_reader, "_PAGE_S", 600.0)
