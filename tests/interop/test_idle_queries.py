"""What a streaming query costs the cluster while nothing happens."""

import time
from pathlib import Path

import pytest
from dirty_equals import Contains
from pyspark.sql import SparkSession

from broker_embedded.testing import EmbeddedBroker
from tests.support.clients.topics import Topics
from tests.support.spark.queries import Batches, KafkaFrames, wait_for

pytestmark = [pytest.mark.interop, pytest.mark.spark]

IDLE_S = 4.0
PER_SECOND = 10.0
"""Spark itself asks some ninety times a second."""


@pytest.mark.feature("better.idle")
def test_an_idle_query_sends_a_few_requests_a_second(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedBroker(topics={"t": 20}) as broker:
        frames, batches = KafkaFrames(spark, broker.bootstrap_servers), Batches(tmp_path / "checkpoint")
        df = frames.stream(subscribe="t", startingOffsets="earliest")
        with Topics(broker.bootstrap_servers) as topics, batches.running(df) as query:
            topics.write("t", ["1"])
            batches.wait_for(["1"], query)
            wait_for(lambda: batches.committed, Contains(0), query)
            wait_for(lambda: query.status["isDataAvailable"], False, query)
            broker.forget_requests()
            began = time.monotonic()
            time.sleep(IDLE_S)
            counts = broker.request_counts()
            elapsed = time.monotonic() - began
            assert 0 < counts.total() <= PER_SECOND * elapsed, counts
            topics.write("t", ["2"])
            batches.wait_for(["1", "2"], query)
