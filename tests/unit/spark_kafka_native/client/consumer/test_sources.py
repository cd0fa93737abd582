import math
from typing import Any

import pytest

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.consumer.cursor import Cursor, PartitionRange
from spark_kafka_native._client.consumer.sources import Sources, Wakeup
from spark_kafka_native._client.pausable_clock import PausableClock
from spark_kafka_native._net.alarm import Alarm
from spark_kafka_native._protocol.topic import TopicPartition

NO_CLUSTER: Any = None


@pytest.mark.parametrize("pause_ms", [2**31, 2**32, math.inf])
def test_a_wait_of_any_length_ends_with_the_alarm(pause_ms: float) -> None:
    config = ClientConfig.parse({"bootstrap.servers": "b:9092"})
    wanted = PartitionRange(partition=TopicPartition("t", 0), from_offset=5, until_offset=9)
    wakeup = Wakeup(Alarm())
    sources = Sources(NO_CLUSTER, 0, PausableClock(), wakeup)
    sources.wait(Cursor(wanted, config, timeout_ms=1_000, jitter=1.0, now=10.0), pause_ms)
    wakeup.alarm.ring()
    assert sources.poll() == (None, [])
    assert sources.is_woken
    wakeup.alarm.close()
