"""What runs that kill a streaming copy have in common: records to copy, waiting for it, and killing a part of it."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
from dirty_equals import IsInt

from spark_kafka_native.client.producer.producer import Producer
from tests.support.clients.native import config_of
from tests.support.clients.topics import Topics
from tests.support.clients.writers import Writer
from tests.support.spark.copy_cluster import SparkCopy
from tests.support.waiting import eventually

KEYS = 20
PATIENCE_S = 300.0


class KeyedWriter(Writer):
    """Writes ever higher numbers under a few keys, each to the partition of its key."""

    _count = 0

    @property
    def acknowledged_count(self) -> int:
        return self._count

    def _write_until_stopped(self) -> None:
        with Producer(config_of(self.servers, linger_ms=0, reconnect_backoff_max_ms=200)) as producer:
            while not self._ending.is_set():
                numbers = range(self._count, self._count + KEYS)
                keys = pa.array([f"key {n % KEYS}".encode() for n in numbers], pa.binary())
                values = pa.array([str(n).encode() for n in numbers], pa.binary())
                producer.send(self.topic, pa.RecordBatch.from_pydict({"key": keys, "value": values}))
                producer.flush()
                self._count = numbers.stop
                self._ending.wait(self.pause_s)


T = TypeVar("T")


def wait_until(read: Callable[[], T], expected: object, copy: SparkCopy, patience_s: float = PATIENCE_S) -> T:
    """As `eventually`; a driver that has given up is started again meanwhile, as a supervisor would."""

    def read_and_start() -> T:
        found = read()
        if found != expected:
            copy.start()
        return found

    try:
        return eventually(read_and_start, expected, within_s=patience_s)
    except AssertionError as error:
        error.add_note(copy.output)
        raise


def wait_for_progress(topics: Topics, copy: SparkCopy) -> None:
    """Return when the query has copied something more."""
    copy.start()
    before = sum(topics.ends(copy.target).values())
    wait_until(lambda: sum(topics.ends(copy.target).values()), IsInt(gt=before), copy)


def kill(kind: str, dice: random.Random, copy: SparkCopy) -> int:
    """kill -9 of one kind of thing: everything, driver, or one of `copy_cluster.PARTS` -> how often that was.

    None, if a driver has given up just before, and twice, if everything is killed once more while it starts again.
    """
    match kind:
        case "everything":
            count = int(copy.kill())
            if dice.random() < 0.4:
                copy.start()
                time.sleep(dice.uniform(0, 12))
                count += copy.kill()
            return count
        case "driver":
            return int(copy.kill_driver())
        case part:
            wait_until(lambda: copy.kill_one(part, dice.randrange(100)), True, copy)
            return 1
