import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafka_native import tools
from tests.support.clients.topics import Topics
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.spark.queries import KafkaFrames, error_text, failure, finish, unique
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark


@pytest.fixture
def frames(spark: SparkSession, any_broker: AnyBroker) -> KafkaFrames:
    return KafkaFrames(spark, any_broker.bootstrap_servers)


@pytest.fixture
def committed(any_broker: AnyBroker) -> Iterator[Topics]:
    """What a consumer sees with isolation.level=read_committed."""
    with Topics(any_broker.bootstrap_servers, "read_committed") as topics:
        yield topics


def guarantee(prefix: str) -> dict[str, Any]:
    return {"delivery__guarantee": "exactly-once", "transactional__id__prefix": prefix}


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had been killed after the sink's commit and before Spark's own."""
    last = max((path for path in (checkpoint / "commits").glob("[0-9]*")), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.feature("sink.exactlyOnce", "sink.delivery")
def test_a_batch_that_is_run_again_is_not_written_again(
    frames: KafkaFrames, any_broker: AnyBroker, committed: Topics, new_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target, prefix = new_topic(2), new_topic(3), unique("orders")
    values = [f"v{number}".encode() for number in range(40)]

    def run(some: list[bytes]) -> None:
        committed.write(source, some, partition=[number % 2 for number in range(len(some))])
        stream = frames.stream(subscribe=source, startingOffsets="earliest", schema="value binary")
        finish(frames.write_stream(stream, tmp_path / "checkpoint", topic=target, **guarantee(prefix)))

    run(values[:20])
    eventually(lambda: committed.values(target), sorted(values[:20]))
    forget_last_commit(tmp_path / "checkpoint")
    run(values[20:])
    eventually(lambda: committed.values(target), sorted(values))

    stream = frames.stream(subscribe=source, startingOffsets="earliest")
    text = failure(lambda: frames.write_stream(stream, tmp_path / "new", topic=target, **guarantee(prefix)))
    assert f"option 'transactional.id.prefix' = {prefix}: the last batch with this prefix is batch 1 of stream" in text
    printed = re.search(r"pykafka (exactly-once release \S+ --bootstrap-server \S+:[0-9]+)", text)
    assert printed is not None, text
    assert printed[1] == f"exactly-once release {prefix} --bootstrap-server {any_broker.bootstrap_servers}"
    assert tools.main(printed[1].split()) == 0


@pytest.mark.feature("sink.exactlyOnce", "sink.delivery")
def test_an_older_copy_of_the_checkpoint_is_refused_and_no_row_is_lost(
    frames: KafkaFrames, committed: Topics, new_topic: TopicMaker, tmp_path: Path
) -> None:
    """The copy has no batch 1, so Spark plans another one with more rows than the batch 1 that was written."""
    source, target, prefix = new_topic(1), new_topic(1), unique("copy")
    checkpoint, older = tmp_path / "checkpoint", tmp_path / "older"

    def start(directory: Path) -> StreamingQuery:
        stream = frames.stream(subscribe=source, startingOffsets="earliest", schema="value binary")
        return frames.write_stream(stream, directory, topic=target, **guarantee(prefix))

    committed.write(source, [b"a"])
    finish(start(checkpoint))
    shutil.copytree(checkpoint, older)
    committed.write(source, [b"b", b"c"])
    finish(start(checkpoint))
    committed.write(source, [b"d"])
    for _ in range(2):
        text = failure(lambda: start(older))
        assert "[PYKAFKA_EXACTLY_ONCE.REFUSED]" in text
        assert "was written with 2 rows, and now it has 3: the checkpoint is an older copy" in text
        assert f"exactly-once release {prefix} --bootstrap-server" in text
    finish(start(checkpoint))
    eventually(lambda: committed.values(target), [b"a", b"b", b"c", b"d"])


@pytest.mark.feature("sink.exactlyOnceBatch")
def test_a_batch_is_there_whole_or_not_at_all(
    frames: KafkaFrames, any_broker: AnyBroker, committed: Topics, new_topic: TopicMaker
) -> None:
    target, prefix = new_topic(2), unique("load")
    rows = "SELECT CAST(id AS STRING) AS value FROM range(0, 2000, 1, 2)"
    fails = rows.replace("CAST(id AS STRING)", "IF(id = 1999, raise_error('stop'), CAST(id AS STRING))")
    assert "stop" in error_text(lambda: frames.write(fails, topic=target, **guarantee(prefix)))
    assert committed.values(target) == []
    frames.write(rows, topic=target, **guarantee(prefix))
    frames.write("SELECT 'more' AS value", topic=target, **guarantee(prefix))
    expected = sorted([b"more", *(str(number).encode() for number in range(2000))])
    eventually(lambda: committed.values(target), expected)
    too_long: dict[str, Any] = {"kafka__transaction__timeout__ms": 1_000_000}
    text = error_text(lambda: frames.write("SELECT 'x' AS value", topic=target, **guarantee(prefix), **too_long))
    assert "1000000 is more than the brokers' transaction.max.timeout.ms" in text
    assert "serialize" not in text
    with Topics(any_broker.bootstrap_servers) as everything:
        eventually(lambda: committed.ends(target), everything.ends(target))  # nothing is left open
