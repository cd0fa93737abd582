import pytest

from tests.support.exactly_once.driver import SimulatedKafka


@pytest.fixture(params=[1, 2], ids=["tv1", "tv2"])
def kafka(request: pytest.FixtureRequest) -> SimulatedKafka:
    return SimulatedKafka(request.param)
