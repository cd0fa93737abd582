"""Transactions without end while a broker dies and comes back, and what must be true of them afterwards.

A load writes a transaction to all partitions of a topic, with the position of a group, and commits or aborts it. When
the broker is gone it continues as clients do: it repeats the end, or begins again, which aborts.
"""

import random
from contextlib import suppress
from enum import Enum

from dirty_equals import AnyThing, IsInt

from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.kills.background import Background
from tests.support.requests.committed_offsets import committed_offset
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import is_served, settle, values
from tests.support.requests.transactions import RawProducer
from tests.support.waiting import eventually

TOPIC = "copied"
SOURCE = "source"
PARTITIONS = 3
PATIENCE_S = 90.0


class Fate(Enum):
    """What is known of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The response to its end was lost, and the request was not repeated."""


class Load(Background):
    """Transactions of one id, with the seed's dice. ``fates`` are of those that were begun, in order."""

    def __init__(self, address: str, name: str, level: int, seed: int) -> None:
        super().__init__(f"load {name}", PATIENCE_S)
        self.address, self.name, self.level = address, name, level
        self.fates: list[Fate] = []
        self._dice = random.Random(seed)
        self._thread.start()

    @property
    def group(self) -> str:
        """The group whose positions it commits."""
        return f"group-of-{self.name}"

    def _work(self) -> None:
        while not self._ending.is_set():
            with suppress(OSError):
                self._write_until_it_breaks()
            self._ending.wait(0.02)
        eventually(self._leave_nothing_open, None, within_s=PATIENCE_S, retrying=(OSError,))

    def _leave_nothing_open(self) -> None:
        with RawProducer(self.address, self.name, level=self.level) as producer:
            producer.begin()

    def _write_until_it_breaks(self) -> None:
        with RawProducer(self.address, self.name, level=self.level) as producer:
            producer.begin()
            while not self._ending.is_set():
                self._one_transaction(producer)

    def _one_transaction(self, producer: RawProducer) -> None:
        number = len(self.fates)
        self.fates.append(Fate.ABORTED)
        for partition in self._dice.sample(range(PARTITIONS), PARTITIONS):
            for part in range(self._dice.choice((1, 1, 2))):
                producer.write(TOPIC, f"{self.name}:{number}:{partition}.{part}", partition=partition)
        producer.send_offsets(self.group, {(SOURCE, 0): number + 1})
        if self._dice.random() < 0.1:
            producer.begin()  # an error that the producer survives: the transaction is aborted
            return
        commit = self._dice.random() < 0.7
        try:
            (producer.commit if commit else producer.abort)()
        except OSError:
            if commit:
                self.fates[number] = Fate.UNKNOWN
            if self._dice.random() < 0.7:
                self._end_again(producer, commit=commit)
                self.fates[number] = Fate.COMMITTED if commit else Fate.ABORTED
            raise
        self.fates[number] = Fate.COMMITTED if commit else Fate.ABORTED

    def _end_again(self, before: RawProducer, *, commit: bool) -> None:
        """Ask for the same end on a new connection, until there is a response: which must be that it is so."""

        def end() -> ErrorCode:
            with RawProducer(self.address, self.name, level=self.level) as producer:
                producer.take(*before.identity)
                return ErrorCode.of(producer.end(commit=commit).error_code)

        code = eventually(end, AnyThing, within_s=PATIENCE_S, retrying=(OSError,))
        assert code is ErrorCode.NONE, f"{self.name}: {code.name}"


def wait_for_progress(loads: list[Load], count: int = 2) -> None:
    """Return when every load has begun so many more transactions."""
    wanted = [IsInt(ge=len(load.fates) + count) for load in loads]

    def begun() -> list[int]:
        for load in loads:
            load.raise_if_failed()
        return [len(load.fates) for load in loads]

    eventually(begun, wanted, within_s=PATIENCE_S)


def check(address: str, loads: list[Load]) -> None:
    """Assert that committed transactions are there as wholes, once and in order, and others are not."""
    with RawClient(address) as client:
        eventually(
            lambda: [is_served(client, TOPIC, number) for number in range(PARTITIONS)],
            [True] * PARTITIONS,
            within_s=PATIENCE_S,
        )
        seen: list[list[str]] = []
        for partition in range(PARTITIONS):
            settle(client, TOPIC, partition)
            seen.append(values(client, TOPIC, partition))
        for load in loads:
            shown = [_numbers(found, load.name) for found in seen]
            assert all(numbers == sorted(numbers) for numbers in shown), f"{load.name}: out of order"
            wholes = [set(numbers) for numbers in shown]
            assert all(whole == wholes[0] for whole in wholes), f"{load.name}: in some partitions only"
            everything = [value for found in seen for value in found if value.startswith(f"{load.name}:")]
            assert len(everything) == len(set(everything)), f"{load.name}: twice"
            for number, fate in enumerate(load.fates):
                if fate is not Fate.UNKNOWN:
                    assert (number in wholes[0]) is (fate is Fate.COMMITTED), f"{load.name}: {number} was {fate.value}"
            _check_position(client, load, wholes[0])


def _check_position(client: RawClient, load: Load, visible: set[int]) -> None:
    expected = max(visible, default=-2) + 1
    found = committed_offset(client, load.group, SOURCE, stable=True)
    assert found == expected, f"{load.name}: the group is at {found}, its records at {expected}"


def _numbers(found: list[str], name: str) -> list[int]:
    return [int(value.split(":")[1]) for value in found if value.startswith(f"{name}:")]
