"""Brokers for tests and programs, in this process or a separate one, with fault injection, and a ZooKeeper server.

>>> with EmbeddedBroker(topics={"events": 3}) as broker:
...     fault = broker.faults.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2, topic="events")
...     now_ms = broker.advance(days=8)
...     broker.restart()

All keep their data directory and their port over ``restart``, so that clients can reconnect. See docs/testing.md.
"""

from broker_embedded._config.settings import SettingError
from broker_embedded._platform.clocks import ManualClock
from broker_embedded._testing.brokers import ControlledBroker
from broker_embedded._testing.embedded import EmbeddedBroker
from broker_embedded._testing.faults import Fault, Faults
from broker_embedded._testing.fields import FieldError
from broker_embedded._testing.process import BrokerProcess, BrokerStartError
from broker_embedded._testing.recording import RecordedRequest
from broker_embedded._testing.zookeeper import EmbeddedZooKeeper, ZooKeeperStartError
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._zookeeper.errors import ZooKeeperError

__all__ = [
    "BrokerProcess",
    "BrokerStartError",
    "ControlledBroker",
    "EmbeddedBroker",
    "EmbeddedZooKeeper",
    "ErrorCode",
    "Fault",
    "Faults",
    "FieldError",
    "KafkaError",
    "ManualClock",
    "RecordedRequest",
    "SettingError",
    "ZooKeeperError",
    "ZooKeeperStartError",
]
