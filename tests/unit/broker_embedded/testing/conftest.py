import pytest

from broker_embedded._testing.injection import Injector
from broker_embedded._testing.recording import Recorder
from tests.support.broker.driver import BrokerDriver


@pytest.fixture
def injector(broker: BrokerDriver) -> Injector:
    """Injects faults into a broker with topics t and u."""
    made = Injector(Recorder())
    broker.create("t", 3)
    broker.create("u")
    broker.intercept(made.interceptor)
    return made
