"""DescribeLogDirs: the directory, its volume and the logs in it."""

import errno
from pathlib import Path

import pytest

from broker_embedded.platform.platform import RealFileSystem
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tests.support.broker_driver import BrokerDriver, batch
from tests.support.disk import FaultyFileSystem


def directory(
    broker: BrokerDriver, topics: tuple[DescribableLogDirTopic, ...] | None = None, *, version: int = 5
) -> DescribeLogDirsResult:
    answer = broker.ask(DescribeLogDirsRequest(topics=topics), version)
    assert answer.error_code == 0
    (result,) = answer.results
    assert result.log_dir == str(broker.data_dir)
    return result


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, part.partition_index): part.partition_size for topic in result.topics for part in topic.partitions
    }


@pytest.mark.parametrize("version", range(6))
def test_every_log_in_every_version(broker: BrokerDriver, version: int) -> None:
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


def test_some_logs(broker: BrokerDriver) -> None:
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
