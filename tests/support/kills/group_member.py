"""A member of a consumer group in a process that tests kill, and the file of the records that it has processed.

    python -m tests.support.kills.group_member FILE TOPIC SEED NAME=VALUE ...

``NAME=VALUE`` are properties of `ConsumerConnector`. Before the next record is requested, a line is appended to
``FILE``: ``PARTITION OFFSET VALUE``. Before a partition is assigned to the stream: ``+ PARTITION OFFSET``. Some records
take a while, at random. It runs until SIGTERM, after which it commits and leaves; its exit status is 1 after an error.
"""

import logging
import os
import random
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer import connector
from spark_kafka_native._record_clients.consumer.stream_partitions import StreamPartitions
from spark_kafka_native.clients import ConsumerConnector
from tests.support.kills.programs import RunningProgram

SLOW_RECORDS = ((0.02, 0.05), (0.001, 1.0))
"""How many of the records take a while, and for how many seconds at most: less and more than between heartbeats."""


@dataclass
class Assignment:
    """The offsets that a member has processed of a partition, from its assignment to the next one, in order."""

    start: int
    offsets: list[int] = field(default_factory=list)


class MemberProcess(RunningProgram):
    """The process, and what its file says by the last `look`."""

    def __init__(
        self, directory: Path, name: str, instance: int, topic: str, seed: int, options: Mapping[str, object]
    ) -> None:
        self.assignments: dict[int, list[Assignment]] = defaultdict(list)
        self.values: dict[tuple[int, int], bytes] = {}
        """By partition and offset."""
        self._file = (directory / f"{name}.records").open("x+b", buffering=0)
        self._rest = b""
        pairs = [f"{key}={value}" for key, value in options.items()]
        module = [sys.executable, "-m", "tests.support.kills.group_member"]
        super().__init__(directory, name, instance, [*module, self._file.name, topic, str(seed), *pairs])

    def look(self) -> None:
        """Read the lines that it has appended."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            first, second, *value = line.split(b" ", 2)
            if first == b"+":
                partition, start = map(int, (second, *value))
                self.assignments[partition].append(Assignment(start))
            else:
                partition, offset = int(first), int(second)
                self.assignments[partition][-1].offsets.append(offset)
                self.values[partition, offset] = value[0]

    def check_order(self) -> None:
        """Raise AssertionError unless each assignment has all offsets from its start on, in order, without gaps.

        The record that was in process when a partition was lost may be processed in a later assignment.
        """
        for partition, assignments in self.assignments.items():
            late: set[int] = set()
            for each in assignments:
                offsets = each.offsets
                if offsets and offsets[0] in late and (offsets[0] != each.start or offsets[1:2] == [each.start]):
                    offsets, late = offsets[1:], set()
                expected = list(range(each.start, each.start + len(offsets)))
                assert offsets == expected, (
                    f"{self.name}: partition {partition}: {_first_difference(offsets, expected)}"
                )
                late = {expected[-1] + 1} if expected else late | {each.start}

    def close(self) -> None:
        """As `RunningProgram.close`."""
        super().close()
        self._file.close()


def _first_difference(found: list[int], expected: list[int]) -> str:
    before = -1
    for offset, wanted in zip(found, expected, strict=True):
        if offset != wanted:
            return f"offset {offset} follows offset {before}, instead of {wanted}"
        before = offset
    return "none"


class _Lines:
    """The file, for several threads. Each line is one write at its end."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)

    def append(self, line: bytes) -> None:
        assert os.write(self._descriptor, line) == len(line)


class _Observed(StreamPartitions):
    """Writes down what is assigned, before its records can be returned."""

    lines: ClassVar[_Lines]

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            self.lines.append(b"+ %d %d\n" % (partition.partition, offset))
        super().assign(offsets)


def _delays(seed: int) -> Iterator[float]:
    dice = random.Random(seed)
    while True:
        yield sum(dice.uniform(0, longest_s) for share, longest_s in SLOW_RECORDS if dice.random() < share)


def main(path: str, topic: str, seed: str, *options: str) -> None:
    """Process records until SIGTERM."""
    terminated = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: terminated.set())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.info("SIGTERM is handled from now on")
    lines = _Lines(path)
    _Observed.lines = lines
    connector.StreamPartitions = _Observed  # type: ignore[attr-defined]  # it makes its streams of it
    consumer = ConsumerConnector(dict(option.split("=", 1) for option in options))
    (stream,) = consumer.create_message_streams({topic: 1})[topic]

    def shut_down() -> None:
        terminated.wait()
        consumer.shutdown()

    stopping = threading.Thread(target=shut_down, daemon=True)
    stopping.start()
    for record, delay_s in zip(stream, _delays(int(seed)), strict=False):
        time.sleep(delay_s)
        lines.append(b"%d %d %b\n" % (record.partition, record.offset, record.value))
    stopping.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
