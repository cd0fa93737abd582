"""AlterReplicaLogDirs: with one directory a replica is there or cannot go there."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.support.broker_driver import BrokerDriver


def move(
    broker: BrokerDriver, *wanted: tuple[str, str, tuple[int, ...]], version: int = 2
) -> dict[tuple[str, int], int]:
    """The error code of each partition that is wanted in a directory."""
    dirs = tuple(
        AlterReplicaLogDir(path=path, topics=(AlterReplicaLogDirTopic(name=topic, partitions=indexes),))
        for path, topic, indexes in wanted
    )
    answer = broker.ask(AlterReplicaLogDirsRequest(dirs=dirs), version)
    return {
        (topic.topic_name, part.partition_index): part.error_code
        for topic in answer.results
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", range(3))
def test_replicas_that_are_where_they_are_wanted(broker: BrokerDriver, version: int) -> None:
    broker.passing_for("3.9")
    broker.create("t", partitions=2)
    here = str(broker.data_dir)
    assert move(broker, (here, "t", (0, 1)), version=version) == {("t", 0): 0, ("t", 1): 0}


@pytest.mark.parametrize(
    ("path", "topic", "index", "code"),
    [
        ("/nowhere", "t", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("relative", "t", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("/nowhere", "missing", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        (None, "missing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, "t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, "x" * 249, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_replicas_that_cannot_go_there(
    broker: BrokerDriver, path: str | None, topic: str, index: int, code: ErrorCode
) -> None:
    broker.create("t")
    wanted = (path or str(broker.data_dir), topic, (index,))
    assert move(broker, wanted) == {(topic, index): code}


def test_topics_in_several_directories_are_answered_once_each(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    assert move(broker, (str(broker.data_dir), "t", (0,)), ("/nowhere", "t", (1,))) == {
        ("t", 0): 0,
        ("t", 1): ErrorCode.LOG_DIR_NOT_FOUND,
    }
