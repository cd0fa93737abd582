import functools
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.coordinator_driver import TV_0, TV_2, Coordinated, committed, is_stable
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem, SimulatedCrash
from tests.support.broker.driver import BrokerDriver

PARTITIONS: Final = [TopicPartition("t", index) for index in range(3)]
FENCED: Final = {ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED}
"""The errors of a producer whose transaction another client has ended."""
STEPS: Final = 60
LONG_MS: Final = 61_000


class RandomTransactions:
    """Random steps and the records that must be visible. ``open`` has the records of each id's transaction."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.memory = MemoryFileSystem()
        self.faults = FaultyFileSystem(self.memory)
        self.broker = BrokerDriver(Path("/data"), file_system=self.faults)
        self.broker.create("t", partitions=len(PARTITIONS))
        self.values = itertools.count()
        self.ids = [Coordinated(self.broker, f"id-{n}", TV_2 if n % 2 else TV_0) for n in range(3)]
        self.open: dict[str, dict[TopicPartition, list[bytes]]] = {}
        self.committed: list[dict[TopicPartition, list[bytes]]] = []
        self.unknown: list[dict[TopicPartition, list[bytes]]] = []
        """Transactions that were committed when the broker crashed."""
        for one in self.ids:
            one.begin()

    def step(self) -> None:
        """One step, during which the broker may crash."""
        one = self.chance.choice(self.ids)
        step = self.chance.choice(
            [self.write, self.write, self.write, self.commit, self.commit, self.abort, self.begin]
        )
        if self.chance.random() < 0.2:
            self.faults.steps, self.faults.crash_at = [], self.chance.randrange(8)
            self.faults.torn = self.chance.random() < 0.5
        try:
            step(one)
            if self.chance.random() < 0.05:
                self.wait_long()
        except SimulatedCrash:
            self.restart()
        self.faults.crash_at = None

    def write(self, one: Coordinated) -> None:
        value = b"%d" % next(self.values)
        for partition in self.chance.sample(PARTITIONS, self.chance.randint(1, 3)):
            if self.is_fenced(one, functools.partial(one.write, value, partition)):
                return
            self.open.setdefault(one.name, {}).setdefault(partition, []).append(value)

    def commit(self, one: Coordinated) -> None:
        """The open records become visible; unknown if the broker crashes."""
        written = self.open.pop(one.name, {})
        self.unknown.append(written)
        fenced = self.is_fenced(one, one.end)
        self.unknown.remove(written)
        if not fenced:
            self.committed.append(written)

    def abort(self, one: Coordinated) -> None:
        """The open records never become visible."""
        self.open.pop(one.name, None)
        self.is_fenced(one, functools.partial(one.end, commit=False))

    def is_fenced(self, one: Coordinated, work: Callable[[], object]) -> bool:
        """Whether another producer has ended the transaction, so that the work is refused and the id is initialized."""
        try:
            work()
        except KafkaError as error:
            if error.code not in FENCED:
                raise
            self.begin(one)
            return True
        return False

    def begin(self, one: Coordinated) -> None:
        """Another producer initializes the id."""
        self.open.pop(one.name, None)
        one.begin()

    def wait_long(self) -> None:
        """All open transactions are aborted."""
        self.open.clear()
        self.broker.advance(LONG_MS)
        self.broker.run(self.broker.broker.transactions.abort_timed_out())

    def restart(self) -> None:
        """After a crash of the process. Every id is initialized again, as by restarted producers."""
        self.broker.drop()
        self.memory.restart()
        self.faults.revive()
        self.broker.open()
        for one in self.ids:
            self.begin(one)

    def check(self) -> None:
        """Once no transaction is open."""
        for one in self.ids:
            self.begin(one)
        seen = {partition: committed(self.broker, partition) for partition in PARTITIONS}
        assert all(is_stable(self.broker, partition) for partition in PARTITIONS)
        expected: dict[TopicPartition, set[bytes]] = {partition: set() for partition in PARTITIONS}
        for written in self.committed:
            for partition, values in written.items():
                expected[partition] |= set(values)
        for written in filter(None, self.unknown):
            visible = {value in seen[partition] for partition, values in written.items() for value in values}
            assert len(visible) == 1, f"a part of {written} is visible"
            if visible == {True}:
                for partition, values in written.items():
                    expected[partition] |= set(values)
        for partition, values in seen.items():
            assert len(values) == len(set(values))
            assert set(values) == expected[partition]


@pytest.mark.parametrize("seed", range(8))
def test_visible_transactions_are_complete(seed: int) -> None:
    transactions = RandomTransactions(seed)
    with transactions.broker:
        for _ in range(STEPS):
            transactions.step()
        transactions.check()
