from uuid import UUID

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._log.checkpoints import LEADER_EPOCHS, PARTITION_METADATA
from broker_embedded._log.log import Log
from broker_embedded._log.opening import open_log
from broker_embedded._platform.platform import Platform, read_file, write_file
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.broker.log_driver import DIRECTORY, LogDriver
from tests.support.refusals import refused

TOPIC_ID = UUID(int=77)
METADATA = f"{DIRECTORY}/{PARTITION_METADATA}"


def opened(files: FaultyFileSystem | MemoryFileSystem, topic_id: UUID | None = None) -> Log:
    return open_log(DIRECTORY, LogConfig(), Platform(file_system=files), clean_shutdown=True, topic_id=topic_id)


@pytest.fixture
def files() -> FaultyFileSystem:
    files = FaultyFileSystem(MemoryFileSystem())
    files.make_directory("/data")
    files.make_directory(DIRECTORY)
    return files


def test_a_new_log_is_marked_with_its_topic_before_anything_else(files: FaultyFileSystem) -> None:
    assert opened(files).topic_id is None
    files.remove_tree(DIRECTORY)
    files.make_directory(DIRECTORY)
    files.steps = []
    log = opened(files, TOPIC_ID)
    assert (log.partition, log.topic_id, log.log_start_offset, log.log_end_offset) == (("t", 0), TOPIC_ID, 0, 0)
    first_segment = files.steps.index("create 00000000000000000000.log")
    assert "sync_directory t-0" in files.steps[:first_segment]
    assert opened(files).topic_id == TOPIC_ID
    assert opened(files, TOPIC_ID).topic_id == TOPIC_ID


def test_a_directory_of_another_topic_is_not_taken(files: FaultyFileSystem) -> None:
    opened(files, TOPIC_ID)
    assert refused(opened, files, UUID(int=78)).code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_damaged_partition_metadata_is_not_guessed_at(files: FaultyFileSystem) -> None:
    write_file(files, METADATA, b"version: 0\n")
    with pytest.raises(KafkaError, match=r"t-0 cannot be opened: .*partition.metadata.*\(KAFKA_STORAGE_ERROR, "):
        opened(files)


@pytest.mark.parametrize("step", ["open *.timeindex", "read *.log", "create *", "read leader-epoch-checkpoint"])
def test_a_disk_error_is_raised_as_a_storage_error(step: str) -> None:
    driver = LogDriver()
    driver.append()
    driver.reopen()
    driver.log.close()
    driver.faults.fail(step)
    if step == "create *":
        driver.disk.remove(f"{DIRECTORY}/00000000000000000000.log")
    with pytest.raises(KafkaError, match=r"cannot be opened.*\(KAFKA_STORAGE_ERROR, "):
        driver._open(clean=True)


def test_leader_epochs_come_back_and_are_cut_to_the_log() -> None:
    driver = LogDriver()
    for epoch in (0, 0, 3, 5):
        driver.append(leader_epoch=epoch)
    driver.reopen()
    assert (driver.log.epochs.latest, driver.log.epochs.epoch_of(1), driver.log.epochs.epoch_of(2)) == (5, 0, 3)
    path = f"{DIRECTORY}/{LEADER_EPOCHS}"
    assert read_file(driver.disk, path) == b"0\n3\n0 0\n3 2\n5 3\n"
    write_file(driver.disk, path, b"0\n3\n0 0\n3 2\n9 50\n")
    driver.reopen()
    assert driver.log.epochs.latest == 3


def test_lost_leader_epochs_are_learnt_from_the_batches(caplog: pytest.LogCaptureFixture) -> None:
    driver = LogDriver()
    for epoch in (0, 3, 5):
        driver.append(leader_epoch=epoch)
    driver.flush()
    write_file(driver.disk, f"{DIRECTORY}/{LEADER_EPOCHS}", b"nonsense")
    driver.reopen(clean=False)
    assert [driver.log.epochs.epoch_of(offset) for offset in range(3)] == [0, 3, 5]
    assert "leader-epoch-checkpoint: cut off within a line" in caplog.text
