import errno
from pathlib import Path

import pytest

from broker_embedded._platform.platform import RealFileSystem
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from spark_kafka_native._protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tests.support.broker.disk import FaultyFileSystem
from tests.support.broker.driver import BrokerDriver, batch


def directory(
    broker: BrokerDriver, topics: tuple[DescribableLogDirTopic, ...] | None = None, *, version: int = 5
) -> DescribeLogDirsResult:
    response = broker.ask(DescribeLogDirsRequest(topics=topics), version)
    assert response.error_code == 0
    (result,) = response.results
    assert result.log_dir == str(broker.data_dir)
    return result


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, part.partition_index): part.partition_size for topic in result.topics for part in topic.partitions
    }


@pytest.mark.parametrize("version", range(6))
def test_all_logs_are_described_in_every_version(broker: BrokerDriver, version: int) -> None:
    if version == 0:
        broker.passing_for("3.9")
    broker.create("t", partitions=2)
    broker.create("u")
    records = batch(b"a" * 100)
    broker.produce("t", records, 1)
    result = directory(broker, version=version)
    assert sizes(result) == {("t", 0): 0, ("t", 1): len(records), ("u", 0): 0}
    assert {(part.offset_lag, part.is_future_key) for topic in result.topics for part in topic.partitions} == {
        (0, False)
    }
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes


def test_describe_log_dirs_of_the_requested_partitions(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    broker.create("u")
    wanted = (
        DescribableLogDirTopic(topic="t", partitions=(1, 9)),
        DescribableLogDirTopic(topic="missing", partitions=(0,)),
    )
    assert sizes(directory(broker, wanted)) == {("t", 1): 0}
    assert directory(broker, ()).topics == ()


def test_a_disk_that_fails(tmp_path: Path) -> None:
    disk = FaultyFileSystem(RealFileSystem())
    with BrokerDriver(tmp_path / "data", file_system=disk) as broker:
        disk.fail("volume *", errno.EIO)
        result = directory(broker)
        assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, ())
        disk.heal()


def move(
    broker: BrokerDriver, *wanted: tuple[str, str, tuple[int, ...]], version: int = 2
) -> dict[tuple[str, int], int]:
    """The error code of each partition that is wanted in a directory."""
    dirs = tuple(
        AlterReplicaLogDir(path=path, topics=(AlterReplicaLogDirTopic(name=topic, partitions=indexes),))
        for path, topic, indexes in wanted
    )
    response = broker.ask(AlterReplicaLogDirsRequest(dirs=dirs), version)
    return {
        (topic.topic_name, part.partition_index): part.error_code
        for topic in response.results
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
