"""kill -9 of copies that are exactly once, with task retries and speculation, at named steps and at random moments.

Driver, executors, Python workers, planner, source and broker are killed while attempts at tasks that take too long lose
against others. However that goes, confluent-kafka with isolation.level=read_committed finds every record once, and the
last stable offset never stands still for longer than the transactions' timeout, the broker's interval to look for those
that are over, and the time for which it was down. One copy is record by record, another has a stateful aggregation
between the topics, whose rows say which records they are made of. At least once, the same copy has records twice.

`EXACTLY_ONCE_KILLS` (10, half of them on each broker, for each of the two copies, which makes 20) and `SEED` are taken
from the environment; the seed is shown with a failure. Apache Kafka itself is not killed, see `test_kill_transactions`.
"""

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from dirty_equals import IsInt

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._spark.exactly_once.errors import ErrorKind
from tests.support.clients.topics import Topics
from tests.support.kills.copy_driver import LATEST_WINDOWS, PER_WINDOW, RESTARTS
from tests.support.kills.exactly_once import Killer
from tests.support.kills.exactly_once import kills as planned_kills
from tests.support.kills.last_stable_offsets import Standstill
from tests.support.kills.spark_copy import (
    PATIENCE_S,
    SPECULATION,
    KeyedWriter,
    SparkCopy,
    wait_for_progress,
    wait_until,
)
from tests.support.report import Report
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.spark.queries import unique

KILLS = int(os.environ.get("EXACTLY_ONCE_KILLS", "10")) // 2
PARTITIONS = 3
WINDOW = 100
TIMEOUT_S = 180
SWEEP_S = 10
"""Kafka's default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""
EXACTLY_ONCE = {
    "sink.delivery.guarantee": "exactly-once",
    "sink.kafka.transaction.timeout.ms": str(TIMEOUT_S * 1000),
    "sink.transaction.recovery.time.ms": "60000",
}
NEVER = (ErrorKind.LOST, ErrorKind.REFUSED, ErrorKind.CORRUPT, ErrorKind.MIXED)
"""Why no query may stop, whatever is killed. FENCED it may be, where another run has taken over."""
RUNNING = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "3000", RESTARTS: "true"}

pytestmark = [
    pytest.mark.interop,
    pytest.mark.kill,
    pytest.mark.alone,
    pytest.mark.spark,
    pytest.mark.timeout(400 + 60 * KILLS),
]


class Servers(NamedTuple):
    address: str
    broker: BrokerProcess | None


@pytest.fixture(params=["bundled", "apache"])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Servers]:
    if request.param == "apache":
        kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
        yield Servers(kafka.bootstrap_servers, None)
    else:
        with BrokerProcess(tmp_path / "broker") as broker:
            yield Servers(broker.bootstrap_servers, broker)


def read_committed(servers: str, topic: str) -> list[tuple[str, str]]:
    """Keys and values as confluent-kafka reads them up to the last stable offset, in order within a partition."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    config = {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False}
    config |= {"isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0}
    found: list[tuple[str, str]] = []
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            for message in consumer.consume(1000, 1.0):
                error, partition = message.error(), message.partition()
                if error is None:
                    found.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
                elif error.code() == KafkaError._PARTITION_EOF and partition is not None:
                    ended.add(partition)
    return found


def copied(rows: list[tuple[str, str]]) -> list[tuple[str, int]]:
    """Numbers with their keys, of a copy record by record."""
    return [(key, int(value)) for key, value in rows]


def summed_up(rows: list[tuple[str, str]]) -> list[tuple[str, int]]:
    """Numbers with their keys, of what `copy_driver.summed_up` makes of windows."""
    return [(key, int(number)) for key, value in rows for number in value.split(",")]


def check_once(written: list[tuple[str, int]], found: list[tuple[str, int]]) -> None:
    """Assert that all that was written is there once, and nothing else."""
    lost, too_many = Counter(written) - Counter(found), Counter(found) - Counter(written)
    assert (sorted(lost.items())[:9], sorted(too_many.items())[:9]) == ([], []), f"{lost.total()}, {too_many.total()}"


def by_key(numbers: list[tuple[str, int]]) -> dict[str, list[int]]:
    """The numbers under each key, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for key, number in numbers:
        found[key].append(number)
    return dict(found)


def run(
    directory: Path,
    servers: Servers,
    seed: int,
    kills: int,
    numbers_of: Callable[[list[tuple[str, str]]], list[tuple[str, int]]],
    **options: str,
) -> tuple[str, list[tuple[str, int]], list[tuple[str, int]]]:
    """Kill a copy so many times -> a line about it, what was written, what a consumer of committed records finds."""
    with (
        Topics(servers.address) as topics,
        Topics(servers.address, "read_committed") as committed,
        SparkCopy(
            directory,
            servers.address,
            source := topics.create(PARTITIONS),
            target := topics.create(PARTITIONS),
            **SPECULATION,
            **RUNNING,
            **options,
        ) as copy,
        Standstill(servers.address, target) as standstill,
    ):
        killer = Killer(copy, committed, random.Random(seed), servers.broker)
        number = 2 * (PER_WINDOW in options) + (servers.broker is None)
        planned = planned_kills(seed, number, with_broker=servers.broker is not None)
        writer = KeyedWriter(servers.address, source, PARTITIONS, pause_s=0.1)
        try:
            while killer.count < kills:
                wait_for_progress(committed, copy)
                killer.carry_out(next(planned))
            wait_for_progress(committed, copy)
            wait_until(lambda: copy.speculative_losers, IsInt(gt=0), copy)
        finally:
            writer.stop()
        written = copied([((r.key or b"").decode(), (r.value or b"").decode()) for r in topics.read(source)])
        assert len(written) == writer.acknowledged_count
        if PER_WINDOW in options:
            # Windows are over once there is a number that is far beyond them.
            topics.write(source, [str(len(written) + (LATEST_WINDOWS + 2) * WINDOW)], keys=["beyond"])

        def found() -> list[tuple[str, int]]:
            return numbers_of(read_committed(servers.address, target))

        bound_s = TIMEOUT_S + SWEEP_S + killer.downtime_s
        with suppress(AssertionError):  # the comparison reports what is missing
            wait_until(lambda: set(written) - set(found()), set(), copy, patience_s=bound_s + PATIENCE_S)
        copy.kill()
        assert standstill.longest_s < bound_s, "consumers of committed records waited for longer than they may"
        assert killer.count >= kills
        assert not [kind for kind in NEVER if f"PYKAFKA_EXACTLY_ONCE.{kind}" in copy.whole_output]
        assert copy.speculative_losers > 0
        line = (
            f"SEED={seed}: {killer.count} kills ({', '.join(f'{n} {what}' for what, n in killer.killed.items())}), "
            f"at {', '.join(killer.steps) or 'no step'}; {copy.starts} drivers, {copy.speculative_losers} speculative "
            f"losers, {len(written)} records; longest standstill {standstill.longest_s:.1f} s"
        )
        return line, written, found()


def test_a_copy_that_is_killed(tmp_path: Path, servers: Servers, seed: int, report: Report) -> None:
    prefix = {"sink.transactional.id.prefix": unique("copy")}
    line, written, found = run(tmp_path, servers, seed, KILLS, copied, **EXACTLY_ONCE, **prefix)
    report("Copies exactly once that were killed", [line])
    check_once(written, found)
    assert by_key(found) == by_key(written), "in order"


def test_an_aggregation_that_is_killed(tmp_path: Path, servers: Servers, seed: int, report: Report) -> None:
    prefix = {"sink.transactional.id.prefix": unique("windows")}
    more = {PER_WINDOW: str(WINDOW)}
    line, written, found = run(tmp_path, servers, seed, KILLS, summed_up, **EXACTLY_ONCE, **prefix, **more)
    report("Aggregations exactly once that were killed", [line])
    check_once(written, found)


def test_at_least_once_what_loses_is_there_too(tmp_path: Path, seed: int) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        _, written, found = run(tmp_path, Servers(broker.bootstrap_servers, None), seed, 0, copied)
    assert set(found) == set(written)
    assert max(Counter(found).values()) > 1
