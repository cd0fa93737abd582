"""Both connectors in one Spark, and topics that are hard to read on one Apache Kafka, for all tests here."""

from collections.abc import Iterator

import pytest

from tests.support.report import skip_if
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.servers.both_brokers import kafka_of_its_own
from tests.support.spark.hard_topics import HardTopics
from tests.support.spark.jvm_connector import BothConnectors, jvm_connector_unavailable

kafka = kafka_of_its_own("session", settings={"log.cleaner.backoff.ms": "200", "auto.create.topics.enable": "false"})


@pytest.fixture(scope="session")
def topics(kafka: ApacheKafka) -> Iterator[HardTopics]:
    """The topics; nothing changes them."""
    made = HardTopics(kafka)
    made.write()
    yield made
    made.close()


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothConnectors]:
    """A Spark session with both connectors."""
    skip_if(jvm_connector_unavailable())
    with BothConnectors(tmp_path_factory.mktemp("both-connectors")) as session:
        yield session
