"""Connections that break while idempotent producers write, with responses lost after the records were stored.

The producers must send again, and the broker must know what it has already: nothing is lost, nothing is there twice.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.writers import both_writers, wait_for_progress
from tests.support.scripted.proxy import BreakingProxy
from tests.support.servers.both_brokers import BOTH, running_broker
from tests.support.servers.brokers import AnyBroker

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

PARTITIONS = 3
BREAKS = 12


@pytest.fixture
def proxy() -> Iterator[BreakingProxy]:
    with BreakingProxy() as proxy:
        yield proxy


@pytest.fixture(params=BOTH)
def broker(request: pytest.FixtureRequest, proxy: BreakingProxy, tmp_path: Path) -> Iterator[AnyBroker]:
    """A broker that tells its clients to come through the proxy."""
    settings = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
    with running_broker(request.param, tmp_path, settings) as broker:
        proxy.target = broker.bootstrap_servers
        yield broker


@pytest.mark.timeout(120)
def test_lost_responses_neither_lose_nor_duplicate_records(broker: AnyBroker, proxy: BreakingProxy, seed: int) -> None:
    dice = random.Random(seed)
    with both_writers(broker, PARTITIONS, proxy.address) as writers:
        for _ in range(BREAKS):
            wait_for_progress(writers)
            time.sleep(dice.uniform(0, 0.1))
            proxy.lose_responses()
            time.sleep(dice.uniform(0, 0.05))
            proxy.cut()
