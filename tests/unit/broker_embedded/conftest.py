from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker.driver import BrokerDriver


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerDriver]:
    with BrokerDriver(tmp_path / "data") as driver:
        yield driver
