"""kill -9 of a broker at every named step of append, roll, flush, checkpoint, compaction, deletion, shutdown and start.

Producers write all the time; what was acknowledged must be there at the end, once, in order. A compacted topic must
have the last acknowledged value of every key, or a later one. The steps are those of `tests.support.kills.broker`.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import HasLen

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.consumer.offsets import LATEST, list_offsets
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.interface import Record
from tests.support.clients.native import config_of, rows_of
from tests.support.clients.writers import PADDING, OurWriter, Writer, check_written, wait_for_progress
from tests.support.kills.broker import STEPS
from tests.support.kills.broker_process import PATIENCE_S, DoomedBroker
from tests.support.report import Report
from tests.support.scripted.fetched_logs import OneRange
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kill, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("KILLS", "3"))
"""So many steps are tried, from 10 on all of them."""
KEYS = 40
COMPACTED = "compacted"
SETTINGS = {
    "log.segment.bytes": "60000",
    "log.index.interval.bytes": "512",
    "log.flush.interval.messages": "2000",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "100",
    "log.retention.check.interval.ms": "200",
}
ONCE = ("shutdown", "start", "start offsets")
"""What happens once in the life of a process, when it stops, starts, or has started."""


class CompactedTopicWriter(Writer):
    """Writes ever higher values under few keys, and remembers the last that was acknowledged of each."""

    _count = 0

    @property
    def acknowledged_count(self) -> int:
        return self._count

    def _write_until_stopped(self) -> None:
        with Producer(config_of(self.servers, linger_ms=0, batch_size=2000, reconnect_backoff_max_ms=200)) as producer:
            while not self._ending.is_set():
                numbers = range(self._count, self._count + 4 * KEYS)
                producer.send(self.topic, rows_of([self._record(n) for n in numbers]))
                producer.flush()
                self.acknowledged[0] |= {f"{n % KEYS}": n for n in numbers}
                self._count = numbers.stop
                self._ending.wait(self.pause_s)

    def _record(self, number: int) -> Record:
        return Record(f"{number % KEYS}".encode(), b"%d:%s" % (number, PADDING), partition=0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DoomedBroker]:
    doomed = DoomedBroker(tmp_path, SETTINGS)
    with BrokerProcess(tmp_path, settings={"listeners": f"PLAINTEXT://{doomed.address}", **SETTINGS}) as first:
        first.create_topic("plain", 2)
        compacted = {"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01"}
        first.create_topic(COMPACTED, 1, compacted)
    yield doomed
    doomed.close()


def steps_to_try(dice: random.Random) -> list[str]:
    """All steps in any order, or a few of them."""
    every = list(STEPS)
    dice.shuffle(every)
    return every if KILLS >= 10 else every[:KILLS]


def test_what_was_acknowledged_survives_a_kill_at_every_step(broker: DoomedBroker, seed: int, report: Report) -> None:
    dice = random.Random(seed)
    steps = steps_to_try(dice)
    broker.start("append: written, not answered", 10**9)
    writers: list[Writer] = [OurWriter(broker.address, "plain", 2), CompactedTopicWriter(broker.address, COMPACTED, 1)]
    met = []
    try:
        for step in steps:
            wait_for_progress(writers)
            broker.stop()
            broker.start(step, 1 if step.split(":")[0] in ONCE else dice.randint(1, 3))
            if step.startswith("shutdown"):
                wait_for_progress(writers)
                broker.stop()
            if broker.died(PATIENCE_S):
                met.append(step)
            broker.start("append: written, not answered", 10**9)
        wait_for_progress(writers)
    finally:
        for writer in writers:
            writer.stop()
    check_written(broker.address, writers[0])
    check_compacted(broker.address, writers[1])
    counts = ", ".join(f"{writer.acknowledged_count} to {writer.topic}" for writer in writers)
    report("Brokers that were killed", [f"SEED={seed}: {len(met)} steps; acknowledged and there once: {counts}"])
    assert met == steps, "these were never reached"


def check_compacted(servers: str, writer: Writer) -> None:
    """Assert that the last acknowledged value of every key is there, or a later one; and nothing out of order."""
    partition = TopicPartition(COMPACTED, 0)
    with Cluster(config_of(servers)) as cluster:
        end = list_offsets(cluster, {partition: LATEST})[partition].offset

        def read() -> list[dict[str, Any]]:
            with OneRange(cluster, partition, 0, end) as fetcher:
                return [row for batch in fetcher for row in batch.to_pylist()]

        rows = eventually(read, HasLen(0, end - 1), within_s=PATIENCE_S)
    offsets = [row["offset"] for row in rows]
    assert offsets == sorted(set(offsets))
    last: dict[str, int] = {}
    for row in rows:
        key, number = row["key"].decode(), int(row["value"].partition(b":")[0])
        assert number > last.get(key, -1), f"key {key} went back from {last[key]} to {number}"
        last[key] = number
    lost = {
        key: (last.get(key), number)
        for key, number in writer.acknowledged[0].items()
        if last.get(key, -1) < (number or 0)
    }
    assert lost == {}, "acknowledged and lost"
