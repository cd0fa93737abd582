"""The suites of Spark's JVM connector, case by case under their names there, on both brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.clients.topics import Topics
from tests.support.servers.brokers import AnyBroker
from tests.support.spark.queries import Batches, KafkaFrames, Looks


@pytest.fixture(scope="session")
def topics(any_broker: AnyBroker) -> Iterator[Topics]:
    """The topics of one broker; every test makes its own."""
    with Topics(any_broker.bootstrap_servers) as made:
        yield made


@pytest.fixture(scope="session")
def kafka(spark: SparkSession, any_broker: AnyBroker) -> KafkaFrames:
    """DataFrames on that broker."""
    return KafkaFrames(spark, any_broker.bootstrap_servers)


@pytest.fixture
def looks(spark: SparkSession) -> Iterator[Looks]:
    """What queries that are started from now on tell when they have looked for records and found none to read."""
    with Looks.of(spark) as made:
        yield made


@pytest.fixture
def batches(tmp_path: Path) -> Batches:
    """The micro-batches of a query with a checkpoint of its own."""
    return Batches(tmp_path / "checkpoint")
