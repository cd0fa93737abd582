"""Fixtures of tests with scripted brokers, made in one line: ``brokers = scripted_brokers(topics={"t": 1})``."""

from collections.abc import Iterator
from typing import Any

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from tests.support.scripted.cluster import ScriptedCluster


def scripted_brokers(**options: Any) -> Any:
    """A fixture: brokers of each test's own."""

    @pytest.fixture
    def brokers() -> Iterator[ScriptedCluster]:
        with ScriptedCluster(**options) as running:
            yield running

    return brokers


def brokers_of_each_level(**options: Any) -> Any:
    """As `scripted_brokers`, once for each level of transaction.version."""

    @pytest.fixture(params=[1, 2], ids=["level1", "level2"])
    def brokers(request: pytest.FixtureRequest) -> Iterator[ScriptedCluster]:
        with ScriptedCluster(transaction_version=request.param, **options) as running:
            yield running

    return brokers


def client_of_brokers(**config: Any) -> Any:
    """A fixture: a client of the fixture ``brokers``."""

    @pytest.fixture
    def cluster(brokers: ScriptedCluster) -> Iterator[Cluster]:
        with Cluster(brokers.config(**config)) as made:
            yield made

    return cluster
