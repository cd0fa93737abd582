"""kill -9 of a streaming copy on a Spark cluster of processes, and of the broker, at random moments.

Driver, executors, their Python workers, the source's process and the broker are killed, one or all at once; the query
continues from its checkpoint, maybe in a new driver. At the end every record has been copied, and the first copies
of each key's records are in order. With ``startingOffsets=latest`` this holds for all that was written after the
query had started first, also when it was killed in its first batch. `QUERY_KILLS` (5) and `SEED` are taken from the
environment; the seed is shown with a failure.
"""

import json
import os
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from dirty_equals import IsInt

from broker_embedded.testing import BrokerProcess
from tests.support.clients.topics import Record, Topics
from tests.support.kills.spark_copy import (
    KEYS,
    PARTS,
    PATIENCE_S,
    KeyedWriter,
    SparkCopy,
    kill,
    wait_for_progress,
    wait_until,
)
from tests.support.report import Report
from tests.support.waiting import eventually

KILLS = int(os.environ.get("QUERY_KILLS", "5"))

pytestmark = [pytest.mark.interop, pytest.mark.kill, pytest.mark.alone, pytest.mark.spark]


def by_key(records: Iterable[Record]) -> dict[bytes, list[int]]:
    """The numbers under each key, each where it comes first."""
    found: dict[bytes, dict[int, None]] = defaultdict(dict)
    for record in records:
        assert record.key is not None
        assert record.value is not None
        found[record.key].setdefault(int(record.value))
    return {key: list(numbers) for key, numbers in found.items()}


def check_copied(topics: Topics, copy: SparkCopy, expected: list[Record]) -> int:
    """Assert that all is there, and each key's records in order; the number of rows that are there twice."""
    written = by_key(expected)
    wanted = {(key, number) for key, numbers in written.items() for number in numbers}
    copied: list[Record] = []

    def missing() -> set[tuple[bytes, int]]:
        nonlocal copied
        if sum(topics.ends(copy.target).values()) < len(wanted):
            return wanted
        copied = topics.read(copy.target)
        return wanted - {(record.key or b"", int(record.value or b"-1")) for record in copied}

    wait_until(missing, set(), copy)
    found = by_key(copied)
    assert found.keys() == written.keys()
    for key, numbers in written.items():
        assert [number for number in found[key] if number >= numbers[0]] == numbers, key
    return len(copied) - sum(map(len, found.values()))


@pytest.mark.feature("sink.delivery", "run.stop")
@pytest.mark.timeout(240 + 60 * KILLS)
def test_a_copy_that_is_killed_loses_nothing(tmp_path: Path, seed: int, report: Report) -> None:
    dice = random.Random(seed)
    kinds = ["everything", "driver", "broker", *PARTS]
    dice.shuffle(kinds)
    with (
        BrokerProcess(tmp_path / "broker", topics={"source": 3, "target": 3}) as broker,
        Topics(broker.bootstrap_servers) as topics,
        SparkCopy(
            tmp_path,
            broker.bootstrap_servers,
            "source",
            "target",
            startingOffsets="earliest",
            maxOffsetsPerTrigger="3000",
        ) as copy,
    ):
        writer = KeyedWriter(broker.bootstrap_servers, "source", 3, pause_s=0.05)
        try:
            for number in range(KILLS):
                wait_for_progress(topics, copy)
                time.sleep(dice.uniform(0, 2))
                kind = kinds[number % len(kinds)]
                if kind == "broker":
                    kill_and_restart(broker, dice)
                else:
                    kill(kind, dice, copy)
            wait_for_progress(topics, copy)
        finally:
            writer.stop()
        assert writer.acknowledged_count == sum(topics.ends("source").values())
        twice = check_copied(topics, copy, topics.read("source"))
        line = f"{KILLS} kills ({', '.join(kinds[:KILLS])}), {copy.starts} drivers: {writer.acknowledged_count} records"
        report("Streaming copies that were killed", [f"SEED={seed}: {line} copied, {twice} of them more than once"])


FIRST_FILES = ("metadata", "offsets/0", "commits/0")
LATER_FILES = (r"offsets/\d+", r"commits/\d+") * 3
AT_A_TIME = 3000


@pytest.mark.feature("sink.delivery", "run.stop")
@pytest.mark.timeout(900)
def test_a_driver_killed_after_each_file_of_its_checkpoint(tmp_path: Path, seed: int, report: Report) -> None:
    """Alone or with its executors. Each kill has at most the batch under way copied a second time."""
    dice = random.Random(seed)
    wanted = [*FIRST_FILES, *dice.sample(LATER_FILES, len(LATER_FILES))]
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(AT_A_TIME)}
    with (
        BrokerProcess(tmp_path / "broker", topics={"source": 3, "target": 3}) as broker,
        Topics(broker.bootstrap_servers) as topics,
        SparkCopy(tmp_path, broker.bootstrap_servers, "source", "target", **limits) as copy,
    ):
        writer = KeyedWriter(broker.bootstrap_servers, "source", 3, pause_s=0.05)
        try:
            met = [kill_after(file, copy, whole=dice.random() < 0.5) for file in wanted]
            wait_for_progress(topics, copy)
        finally:
            writer.stop()
        assert writer.acknowledged_count == sum(topics.ends("source").values())
        twice = check_copied(topics, copy, topics.read("source"))
        line = f"{len(met)} kills after {', '.join(met)}; {copy.starts} drivers: {writer.acknowledged_count} records"
        report("Streaming copies that were killed", [f"SEED={seed}: {line} copied, {twice} of them more than once"])
        assert twice <= AT_A_TIME * (copy.starts - 1)


def kill_after(pattern: str, copy: SparkCopy, *, whole: bool) -> str:
    """kill -9 of a driver, or of the whole query, once a new file of the checkpoint has appeared -> which."""
    seen: set[str] = set()

    def new_files() -> set[str]:
        found = {path.relative_to(copy.checkpoint).as_posix() for path in copy.checkpoint.rglob("*")}
        return {name for name in found - seen if re.fullmatch(pattern, name)}

    seen = new_files()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        copy.start()
        appeared = new_files()
        if appeared and (copy.kill() if whole else copy.kill_driver()):
            return min(appeared)
        assert time.monotonic() < deadline, f"no new {pattern} in {PATIENCE_S:.0f} s\n{copy.output}"
        time.sleep(0.001)  # between two looks: the next file may be there soon


def wait_for_records(writer: KeyedWriter) -> None:
    """Return when there is more to copy, by some twenty writes."""
    before = writer.acknowledged_count
    eventually(lambda: writer.acknowledged_count, IsInt(ge=before + 20 * KEYS))


def kill_and_restart(broker: BrokerProcess, dice: random.Random) -> None:
    """kill -9 of a broker, which is gone for a while."""
    broker.kill()
    time.sleep(dice.uniform(0, 2))
    broker.restart()


@pytest.mark.feature("offsets.initial", "source.startingOffsets")
@pytest.mark.timeout(600)
def test_killed_in_its_first_batch_from_latest(tmp_path: Path, seed: int, report: Report) -> None:
    """What counts as the first start is the moment at which Spark has written the query's first offsets down."""
    dice = random.Random(seed)
    with BrokerProcess(tmp_path / "broker", topics={"source": 3}) as broker, Topics(broker.bootstrap_servers) as topics:
        writer = KeyedWriter(broker.bootstrap_servers, "source", 3, pause_s=0.05)
        try:
            killed_in_first_batch = 0
            for attempt in range(5):
                broker.create_topic(f"target-{attempt}", 3)
                directory = tmp_path / f"attempt-{attempt}"
                directory.mkdir()
                with SparkCopy(
                    directory, broker.bootstrap_servers, "source", f"target-{attempt}", startingOffsets="latest"
                ) as copy:
                    copy.start()
                    first_offsets = copy.checkpoint / "offsets" / "0"
                    wait_until(first_offsets.exists, True, copy)
                    time.sleep(dice.uniform(0, 0.5))
                    copy.kill()
                    if (copy.checkpoint / "commits" / "0").exists():
                        continue
                    killed_in_first_batch += 1
                    offsets = json.loads(first_offsets.read_text().splitlines()[-1])["source"]
                    wait_for_records(writer)
                    copy.start()
                    wait_for_progress(topics, copy)
                    writer.stop()
                    expected = [each for each in topics.read("source") if each.offset >= offsets[str(each.partition)]]
                    twice = check_copied(topics, copy, expected)
                    line = f"killed in batch 0 at attempt {attempt + 1}: {len(expected)} records copied, {twice} twice"
                    report("Streaming copies that were killed", [f"SEED={seed}: {line}"])
                    break
            assert killed_in_first_batch, "the first batch was over before every kill"
        finally:
            writer.stop()
