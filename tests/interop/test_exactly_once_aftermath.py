"""After a driver was killed between its decision and the last commit: recovery, or a reported loss.

A write without a successor stays unreadable until ``exactly-once recover`` or the next write with its prefix. A
query that is started again too late, when the broker has aborted what was decided, stops and says which rows are meant.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import Contains
from pyspark.sql import SparkSession

from broker_embedded.testing import BrokerProcess
from tests.interop.test_exactly_once import Killed
from tests.support.clients.topics import Topics
from tests.support.kills.batch_write import TASKS, kill_load_at
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.spark.queries import KafkaFrames, unique
from tests.support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.kill, pytest.mark.alone, pytest.mark.spark]

DECIDED = "commit EndTransactions 1 after"
COMMITTED = "commit EndTransactions 2 after"
"""The first ends the driver's own transaction, which is the decision, the second those of the tasks."""
ROWS = 300
SHORTEST = {
    "sink.delivery.guarantee": "exactly-once",
    "sink.kafka.transaction.timeout.ms": "30000",
    "sink.transaction.recovery.time.ms": "1000",
}
ABORTED_WITHIN_S = 60

FollowUp = Callable[[SparkSession, str, str, str], None]


def command(servers: str, *arguments: str) -> str:
    """What ``exactly-once`` prints."""
    tool = [sys.executable, "-m", "spark_kafka_native.tools", "exactly-once", *arguments]
    tool += ["--bootstrap-server", servers]
    return subprocess.run(tool, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


def recover(_: SparkSession, servers: str, _topic: str, prefix: str) -> None:
    assert "all of it committed" in command(servers, "recover", prefix)


def write_on(spark: SparkSession, servers: str, topic: str, prefix: str) -> None:
    guarantee: dict[str, Any] = {"delivery__guarantee": "exactly-once", "transactional__id__prefix": prefix}
    KafkaFrames(spark, servers).write(f"SELECT '{ROWS}' AS value", topic=topic, **guarantee)


@pytest.mark.feature("sink.exactlyOnceBatch", "sink.exactlyOnceRepair")
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("step", "readable", "follow_up", "more"),
    [
        pytest.param(DECIDED, 0, recover, 0, id="decided-recover"),
        pytest.param(DECIDED, 0, write_on, 1, id="decided-next_write"),
        pytest.param(COMMITTED, ROWS, recover, 0, id="committed-recover"),
    ],
)
def test_a_batch_write_whose_driver_died_after_its_decision(
    any_broker: AnyBroker,
    new_topic: TopicMaker,
    spark: SparkSession,
    step: str,
    readable: int,
    follow_up: FollowUp,
    more: int,
    tmp_path: Path,
) -> None:
    topic, prefix, servers = new_topic(2), unique("load"), any_broker.bootstrap_servers
    options = {"delivery.guarantee": "exactly-once", "transactional.id.prefix": prefix}
    kill_load_at(step, tmp_path, servers, topic, ROWS, **options)
    with Topics(servers, "read_committed") as topics:
        assert len(topics.values(topic)) == readable
        output = command(servers, "status", prefix)
        assert f"decided, with {TASKS} transactions to commit" in output
        follow_up(spark, servers, topic, prefix)
        found = Counter(int(value or b"-1") for value in topics.values(topic))
    assert found == Counter(range(ROWS + more))


@pytest.mark.feature("sink.exactlyOnceRepair")
@pytest.mark.timeout(400)
def test_a_query_that_is_started_again_too_late(tmp_path: Path) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
    prefix = unique("copy")
    with (
        BrokerProcess(tmp_path / "broker", settings=settings) as broker,
        Killed(tmp_path, broker.bootstrap_servers, **SHORTEST, **{"sink.transactional.id.prefix": prefix}) as killed,
    ):
        servers, copy = broker.bootstrap_servers, killed.copy
        killed.run_into(DECIDED)
        killed.kill()
        eventually(
            lambda: command(servers, "status", prefix), Contains("open transactions: 0"), within_s=ABORTED_WITHIN_S
        )
        copy.doom.clear()
        copy.start()
        eventually(lambda: copy.is_running, False, within_s=ABORTED_WITHIN_S)
        assert "[PYKAFKA_EXACTLY_ONCE.LOST]" in copy.output
        assert f"prefix {prefix}: batch 0 of streaming query" in copy.output
        for partition in range(2):
            assert f"{killed.target}-{partition}" in copy.output
        assert killed.numbers() == []
        assert "runs the batch again" in command(servers, "run-again", prefix)
        assert killed.finish() == killed.everything_once
