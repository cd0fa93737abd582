"""Brokers for tests and programs: one in this process, one in a separate process, both with fault injection.

>>> with EmbeddedBroker(topics={"events": 3}) as broker:
...     fault = broker.faults.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2, topic="events")
...     now_ms = broker.advance(days=8)
...     broker.restart()

Both keep their data directory and their port over ``restart``, so that clients can reconnect. See docs/testing.md.
"""

from broker_embedded._config.settings import SettingError
from broker_embedded._platform.clocks import ManualClock
from broker_embedded._testing.brokers import ControlledBroker
from broker_embedded._testing.embedded import EmbeddedBroker
from broker_embedded._testing.faults import Fault, Faults
from broker_embedded._testing.fields import FieldError
from broker_embedded._testing.process import BrokerProcess, BrokerStartError
from broker_embedded._testing.recording import RecordedRequest
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError

__all__ = [
    "BrokerProcess",
    "BrokerStartError",
    "ControlledBroker",
    "EmbeddedBroker",
    "ErrorCode",
    "Fault",
    "Faults",
    "FieldError",
    "KafkaError",
    "ManualClock",
    "RecordedRequest",
    "SettingError",
]
