"""kill -9 of a broker with transactions under way: at random moments and at every named step of what it writes.

Nothing that was committed is lost, nothing that was aborted is visible, a transaction is visible as a whole with the
position of its group or not at all, and every open one ends. `KILLS` (3) and `SEED` are taken from the environment.

Apache Kafka is no control here. While 4.3.1 starts, its coordinator may find no leader for partitions of a transaction,
take them for deleted and complete it without their markers: readers wait for ever, or records that were committed are
aborted with the producer's next transaction.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess
from tests.support.kills.broker import TRANSACTION_STEPS
from tests.support.kills.broker_process import PATIENCE_S, DoomedBroker
from tests.support.kills.transactional_load import PARTITIONS, SOURCE, TOPIC, Load, check, wait_for_progress
from tests.support.report import Report
from tests.support.requests.transactions import LEVELS, RawProducer

KILLS = int(os.environ.get("KILLS", "3"))
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "3",
}
SMALL_SEGMENTS = {"log.segment.bytes": "60000", "log.index.interval.bytes": "512"}
NEVER = 10**9

pytestmark = [pytest.mark.interop, pytest.mark.kill, pytest.mark.timeout(300 + 30 * KILLS)]


def begin_loads(address: str, dice: random.Random) -> list[Load]:
    names = [(level, f"load-{level}-{number}") for level in LEVELS for number in (1, 2)]
    return [Load(address, name, level, dice.getrandbits(32)) for level, name in names]


def leave_one_open(address: str, number: int) -> None:
    """A producer that writes and is never heard of again."""
    with RawProducer(address, f"left-{number}", timeout_ms=1_000) as producer:
        producer.begin()
        producer.write(TOPIC, f"left:{number}", partition=number % PARTITIONS)


def summary(loads: list[Load]) -> str:
    """What became of transactions, as their producers know it."""
    fates = Counter(fate.value for load in loads for fate in load.fates)
    return ", ".join(f"{count} {fate}" for fate, count in sorted(fates.items()))


def test_transactions_survive_kills(tmp_path: Path, seed: int, report: Report) -> None:
    dice = random.Random(seed)
    topics = {TOPIC: PARTITIONS, SOURCE: 1}
    with BrokerProcess(tmp_path, settings={**SETTINGS, **SMALL_SEGMENTS}, topics=topics) as broker:
        loads = begin_loads(broker.bootstrap_servers, dice)
        try:
            for number in range(KILLS):
                wait_for_progress(loads)
                leave_one_open(broker.bootstrap_servers, number)
                time.sleep(dice.uniform(0, 0.6))
                broker.kill()
                time.sleep(dice.uniform(0, 0.2))
                broker.restart()
            wait_for_progress(loads)
        finally:
            for load in loads:
                load.stop()
        check(broker.bootstrap_servers, loads)
        report("Transactions under way", [f"SEED={seed}: {KILLS} kills; {summary(loads)}"])


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[DoomedBroker]:
    settings = {**SETTINGS, **SMALL_SEGMENTS}
    broker = DoomedBroker(tmp_path, settings)
    with BrokerProcess(tmp_path, settings={"listeners": f"PLAINTEXT://{broker.address}", **settings}) as first:
        first.create_topic(TOPIC, PARTITIONS)
        first.create_topic(SOURCE, 1)
    yield broker
    broker.close()


def test_transactions_survive_a_kill_at_every_step(doomed: DoomedBroker, seed: int, report: Report) -> None:
    dice = random.Random(seed)
    steps = list(TRANSACTION_STEPS)
    dice.shuffle(steps)
    steps = steps if KILLS >= 10 else steps[:KILLS]
    nothing = next(iter(TRANSACTION_STEPS))
    doomed.start(nothing, NEVER)
    loads = begin_loads(doomed.address, dice)
    met = []
    try:
        for number, step in enumerate(steps):
            wait_for_progress(loads)
            leave_one_open(doomed.address, number)
            doomed.stop()
            doomed.start(step, dice.randint(1, 3 if "producers" in step else 40))
            if doomed.died(PATIENCE_S):
                met.append(step)
            doomed.start(nothing, NEVER)
        wait_for_progress(loads)
    finally:
        for load in loads:
            load.stop()
    check(doomed.address, loads)
    report("Transactions under way", [f"SEED={seed}: {len(met)} steps; {summary(loads)}"])
    assert met == steps, "these were never reached"
