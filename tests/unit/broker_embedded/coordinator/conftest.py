from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.broker.driver import BrokerDriver


@pytest.fixture
def disk() -> Iterator[tuple[BrokerDriver, FaultyFileSystem]]:
    """A broker with a topic of two partitions, on a disk with faults."""
    faults = FaultyFileSystem(MemoryFileSystem())
    with BrokerDriver(Path("/data"), file_system=faults) as broker:
        broker.create("t", partitions=2)
        yield broker, faults
        faults.heal()
