from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._client.cluster.cluster import Cluster
from tests.support.clients.native import config_of
from tests.support.clients.native_transactions import Transactions
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.servers.both_brokers import running_broker
from tests.support.servers.brokers import TopicMaker

SETTINGS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "3",
}
LEVELS = [
    pytest.param((kind, level), marks=[pytest.mark.interop] if kind == "apache" else [], id=f"{kind}-{level}")
    for kind in ("bundled", "apache")
    for level in (1, 2)
]


class Kafka(NamedTuple):
    """A broker and the level of ``transaction.version`` that it has finalized."""

    broker: BrokerProcess | ApacheKafka
    level: int


@pytest.fixture(scope="package", params=LEVELS)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Both brokers, at both levels."""
    kind, level = request.param
    directory = tmp_path_factory.mktemp("client-transactions")
    with running_broker(kind, directory, SETTINGS, transaction_version=level) as broker:
        yield Kafka(broker, level)


@pytest.fixture
def cluster(kafka: Kafka) -> Iterator[Cluster]:
    with Cluster(config_of(kafka.broker.bootstrap_servers, retry_backoff_ms=20, max_block_ms=30_000)) as cluster:
        yield cluster


@pytest.fixture
def transactions(cluster: Cluster) -> Transactions:
    """Helpers of one call each."""
    return Transactions(cluster)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return TopicMaker(kafka.broker)(3)
