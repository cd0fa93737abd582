import asyncio
import errno
import json
import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from dirty_equals import IsInt

from broker_embedded._broker import Broker, DataDirectoryError
from broker_embedded._config.config import BrokerConfig
from broker_embedded._handlers.support.registry import CloseConnection
from broker_embedded._log.appender import AppendResult
from broker_embedded._platform.platform import Platform, RealFileSystem
from broker_embedded._replica.partitions import LocalPartition
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from spark_kafka_native._protocol.messages.produce import ProduceResponse
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._records.batch import CompressionType
from spark_kafka_native._records.conversion import write_batch
from spark_kafka_native._records.record import LogRecord
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.broker.driver import BrokerDriver, batch, idempotent, produce_request, run_periodic
from tests.support.waiting import eventually_async


def directories(driver: BrokerDriver) -> set[str]:
    return {path.name for path in driver.data_dir.iterdir() if path.is_dir()}


def test_topics_and_records_survive_a_restart(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2, retention_ms="-1")
    for index in (0, 1):
        broker.produce("t", batch(b"%d" % index), index)
    before = broker.broker.image
    broker.restart()
    assert broker.broker.image == before
    assert [broker.values("t", partition=index) for index in (0, 1)] == [[b"0"], [b"1"]]
    assert broker.broker.partitions.get("t", 1).log.config.retention_ms == -1


def test_the_cluster_id_is_kept_or_taken_from_the_settings(broker: BrokerDriver, tmp_path: Path) -> None:
    first = broker.broker.image.cluster_id
    assert len(first) == 22
    broker.restart()
    assert broker.broker.image.cluster_id == first
    with BrokerDriver(tmp_path / "other", {"cluster.id": "mine", "node.id": 7}) as other:
        assert other.broker.image.cluster_id == "mine"
        other.create("t")
        topic = other.broker.image.topics["t"]
        assert topic.partitions[0].leader == 7


def test_a_directory_that_another_broker_uses(broker: BrokerDriver) -> None:
    with pytest.raises(DataDirectoryError, match=r"data directory .*data: in use by another broker"):
        Broker.open(BrokerConfig.parse(broker.settings), os.fspath(broker.data_dir), Platform())
    broker.create("still-works")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("topics.json", "{", r"topics\.json: it is damaged \(JSONDecodeError: "),
        ("topics.json", '{"version": 9}', r"topics\.json: version 9"),
        ("producer-ids.json", "{}", r"producer-ids\.json"),
        ("configs.json", "{}", r"configs\.json: it is damaged \(KeyError: "),
        ("meta.properties", "version=7", r"^/[^ :]*/meta\.properties: [^/]+$"),
    ],
)
def test_a_damaged_directory_is_not_guessed_at(broker: BrokerDriver, name: str, content: str, said: str) -> None:
    broker.create("t")
    broker.drop()
    path = broker.data_dir / name
    before = path.read_text() if path.exists() else None
    path.write_text(content)
    with pytest.raises(DataDirectoryError, match=said):
        broker.open()
    path.unlink() if before is None else path.write_text(before)
    broker.open()
    broker.create("u")


@pytest.mark.parametrize(
    "name", ["topics.json", "producer-ids.json", "configs.json", "scram-credentials.json", "client-quotas.json"]
)
def test_a_file_of_which_the_disk_does_not_say_whether_it_exists(
    broker: BrokerDriver, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that took it for missing would replace it and lose the topics' settings."""
    broker.create("t", retention_ms="-1")
    broker.drop()
    lstat, before = os.lstat, (broker.data_dir / "topics.json").read_bytes()

    def fails(path: str) -> os.stat_result:
        if os.path.basename(path) == name:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return lstat(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", fails)
        with pytest.raises(DataDirectoryError, match=rf"Input/output error: '.*{name}'"):
            broker.open()
    assert (broker.data_dir / "topics.json").read_bytes() == before
    broker.open()


def test_a_topic_whose_settings_this_broker_does_not_know(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.drop()
    path = broker.data_dir / "topics.json"
    document = json.loads(path.read_text())
    document["topics"][0]["configs"] = {"future.setting": "1"}
    path.write_text(json.dumps(document))
    with pytest.raises(DataDirectoryError, match=r"topic t: future\.setting: no such setting"):
        broker.open()
    document["topics"][0]["configs"] = {}
    path.write_text(json.dumps(document))
    broker.open()


def test_directories_put_there_by_hand_become_topics(broker: BrokerDriver, caplog: pytest.LogCaptureFixture) -> None:
    broker.create("t", partitions=2)
    broker.produce("t", batch(b"x"), 1)
    broker.drop()
    (broker.data_dir / "topics.json").unlink()
    shutil.copytree(broker.data_dir / "t-1", broker.data_dir / "copy-0")
    (broker.data_dir / "copy-0" / "partition.metadata").unlink()
    with caplog.at_level(logging.WARNING):
        broker.open()
    for _ in range(2):
        assert broker.values("t", partition=1) == [b"x"]
        assert broker.values("copy") == [b"x"]
        assert len(broker.broker.image.topics["t"].partitions) == 2
        broker.restart()
    assert "topic copy is adopted" in caplog.text


def test_topics_of_brokers_are_taken_up_as_brokers_make_them(broker: BrokerDriver) -> None:
    broker.create("__share_group_state")
    broker.create("t")
    broker.run(broker.broker.groups.make_ready())
    broker.run(broker.broker.transactions.make_ready())
    own = {name: broker.broker.image.topics[name] for name in ("__consumer_offsets", "__transaction_state")}
    broker.drop()
    (broker.data_dir / "topics.json").unlink()
    for _ in range(2):
        broker.open()
        topics = broker.broker.image.topics
        assert {name: topics[name] for name in own} == own
        assert dict(topics["__share_group_state"].configs) == {"cleanup.policy": "compact"}
        assert dict(topics["t"].configs) == {}
        policies = {partition.topic: log.config for partition, log in broker.broker.logs.logs.items()}
        assert [policies[name].compacts for name in (*own, "__share_group_state", "t")] == [1, 1, 1, 0]
        broker.drop()
    broker.open()


def test_leader_epochs_are_taken_up_with_logs(broker: BrokerDriver) -> None:
    broker.create("t", partitions=2)
    broker.produce("t", batch(b"x"))
    broker.run(broker.broker.close())
    (broker.data_dir / "topics.json").unlink()
    (broker.data_dir / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 1\n")
    broker.open()
    assert [partition.leader_epoch for partition in broker.broker.image.topics["t"].partitions] == [4, 0]
    assert broker.produce("t", batch(b"y")).base_offset == 1
    broker.restart()
    assert broker.broker.logs.logs[TopicPartition("t", 0)].epochs.latest == 4


def test_a_directory_of_another_topic_of_that_name_stops_the_start(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.create("u")
    broker.drop()
    metadata = broker.data_dir / "t-0" / "partition.metadata"
    before = metadata.read_bytes()
    metadata.write_bytes((broker.data_dir / "u-0" / "partition.metadata").read_bytes())
    with pytest.raises(DataDirectoryError, match="directory t-0 belongs to topic id"):
        broker.open()
    metadata.write_bytes(before)
    broker.open()


def test_retention_goes_by_the_clock(broker: BrokerDriver) -> None:
    broker.create("t", retention_ms="1000", segment_bytes="150", file_delete_delay_ms="500")
    for _ in range(3):
        broker.produce("t", batch(b"x" * 50, timestamp_ms=broker.clock.now_ms()))
    broker.clock.advance(1001)
    broker.run(run_periodic(broker.broker, "retention"))
    assert broker.fetch("t", 3).log_start_offset == 3
    assert broker.fetch("t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    left = {path.suffix for path in (broker.data_dir / "t-0").iterdir()}
    assert ".deleted" in left
    broker.clock.advance(500)
    broker.run(run_periodic(broker.broker, "removal of deleted files"))
    assert ".deleted" not in {path.suffix for path in (broker.data_dir / "t-0").iterdir()}
    broker.restart()
    assert broker.fetch("t", 3).log_start_offset == 3


def test_flushing_goes_by_the_clock(broker: BrokerDriver) -> None:
    broker.create("t", flush_ms="100")
    broker.produce("t", batch(b"x"))
    log = broker.broker.partitions.get("t", 0).log
    broker.run(run_periodic(broker.broker, "flush"))
    assert log.local.flushed_offset == 0
    broker.clock.advance(100)
    broker.run(run_periodic(broker.broker, "flush"))
    assert log.local.flushed_offset == 1


def test_a_clock_that_is_set_back_delays_no_flush_and_no_removal_of_files(broker: BrokerDriver) -> None:
    broker.create("t", flush_ms="100")
    broker.create("gone", file_delete_delay_ms="100")
    broker.create("cut", file_delete_delay_ms="100", segment_bytes="200", retention_bytes="0")
    for _ in range(3):
        assert broker.produce("cut", batch(b"x" * 50)).error_code == 0
    broker.produce("t", batch(b"x"))
    broker.run(run_periodic(broker.broker, "retention"))
    broker.ask(DeleteTopicsRequest(topic_names=("gone",), timeout_ms=1000), 5)

    def left() -> tuple[object, object]:
        deleted = [name for name in directories(broker) if name.endswith("-delete")]
        return len(deleted), len(list((broker.data_dir / "cut-0").glob("*.deleted")))

    assert left() == (1, IsInt(gt=0))
    broker.clock.advance(-3_600_000)
    broker.clock.advance(100)
    broker.run(run_periodic(broker.broker, "flush"))
    broker.run(run_periodic(broker.broker, "removal of deleted files"))
    assert broker.broker.partitions.get("t", 0).log.local.flushed_offset == 1
    assert left() == (0, 0)


def test_checkpoints_are_written(broker: BrokerDriver) -> None:
    broker.create("t", segment_bytes="150")
    for _ in range(3):
        broker.produce("t", batch(b"x" * 50))
    broker.broker.partitions.get("t", 0).log.local.flush()
    broker.run(run_periodic(broker.broker, "recovery checkpoint"))
    broker.run(run_periodic(broker.broker, "log start checkpoint"))
    assert "t 0 2" in (broker.data_dir / "recovery-point-offset-checkpoint").read_text()


def test_silent_producers_are_forgotten(broker: BrokerDriver) -> None:
    broker.restart({"producer.id.expiration.ms": 1000})
    broker.create("t")
    broker.produce("t", idempotent(batch(b"a"), producer_id=5, sequence=0))
    broker.clock.advance(1001)
    broker.run(run_periodic(broker.broker, "producer id expiry"))
    # Unknown now, it may begin anywhere; before, this would be a repetition.
    response = broker.produce("t", idempotent(batch(b"a"), producer_id=5, sequence=0))
    assert (response.error_code, response.base_offset) == (0, 1)


def test_a_full_disk_refuses_one_partition_and_the_broker_lives() -> None:
    faults = FaultyFileSystem(MemoryFileSystem())
    with BrokerDriver(Path("/data"), file_system=faults) as broker:
        broker.create("t", partitions=2)
        broker.produce("t", batch(b"before"))
        faults.space = 30
        assert broker.produce("t", batch(b"x" * 500)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.values("t") == [b"before"]
        faults.heal()
        assert broker.produce("t", batch(b"after"), 0).error_code == 0
        assert broker.produce("t", batch(b"other"), 1).error_code == 0
        assert broker.values("t") == [b"before", b"after"]


def test_a_file_that_cannot_be_written_fails_its_partition_alone() -> None:
    faults = FaultyFileSystem(MemoryFileSystem())
    with BrokerDriver(Path("/data"), file_system=faults) as broker:
        broker.create("bad")
        broker.create("good")
        faults.space = 10
        faults.fail("truncate *.log", errno.EIO)
        assert broker.produce("bad", batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        faults.heal()
        # What the first write left could not be cut off: that log stays offline, the others do not.
        assert broker.produce("bad", batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.fetch("bad").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.produce("good", batch(b"x")).error_code == 0
        broker.crash()
        assert broker.produce("bad", batch(b"y")).error_code == 0


def test_fetch_versions_without_storage_errors_get_another_error_code(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.broker.partitions.get("t", 0).log.local.offline = "pulled out"
    assert broker.fetch("t", version=6).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.fetch("t", version=5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_closing_with_a_failed_log_is_logged_and_recovered_from(caplog: pytest.LogCaptureFixture) -> None:
    faults = FaultyFileSystem(MemoryFileSystem())
    broker = BrokerDriver(Path("/data"), file_system=faults)
    broker.create("t")
    broker.produce("t", batch(b"x"))
    faults.fail("sync *.log")
    with caplog.at_level(logging.ERROR):
        broker.run(broker.broker.close())
    assert "not closed cleanly: t-0" in caplog.text
    faults.heal()
    broker.open()
    assert broker.values("t") == [b"x"]
    broker.run(broker.broker.close())
    broker._loop.close()


class SlowFileSystem(RealFileSystem):
    """Removing takes as long as the test wants."""

    def __init__(self) -> None:
        self.gate, self.begun = threading.Event(), threading.Event()

    def remove_tree(self, path: str) -> None:
        self.begun.set()
        assert self.gate.wait(30)
        super().remove_tree(path)


def test_removing_files_does_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    slow = SlowFileSystem()
    with BrokerDriver(tmp_path / "data", file_system=slow) as broker:
        broker.create("t", file_delete_delay_ms="0")
        broker.create("u")
        broker.delete("t")

        async def require_while_removing() -> None:
            removing = asyncio.create_task(run_periodic(broker.broker, "removal of deleted files"))
            await eventually_async(slow.begun.is_set, True)
            await asyncio.wait_for(broker.broker.topic_lifecycle.require("v"), 20)
            assert not removing.done()
            slow.gate.set()
            await removing

        broker.run(require_while_removing())
        assert directories(broker) == {"u-0", "v-0"}


def test_topics_are_created_by_metadata_requests(broker: BrokerDriver) -> None:
    assert broker.run(broker.broker.topic_lifecycle.require("t")).name == "t"
    assert len(broker.run(broker.broker.topic_lifecycle.require("__consumer_offsets")).partitions) == 3
    assert len(broker.run(broker.broker.topic_lifecycle.require("__transaction_state")).partitions) == 3
    with pytest.raises(KafkaError, match="does not create the internal topic __share_group_state"):
        broker.run(broker.broker.topic_lifecycle.require("__share_group_state"))


def test_closing_drops_the_appends_that_have_not_begun_and_completes_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released, append = list[str](), threading.Event(), LocalPartition.append

    def held(partition: LocalPartition, *args: Any) -> AppendResult:
        begun.append(str(partition.id))
        assert released.wait(30)
        return append(partition, args[0])  # as one that has passed its last check

    keyed = [
        write_batch([LogRecord(0, 5, b"k", b"v")], base_offset=0, compression=CompressionType.GZIP) for _ in range(22)
    ]
    with BrokerDriver(tmp_path / "data") as broker:
        broker.create("t", partitions=22, cleanup_policy="compact")
        monkeypatch.setattr(LocalPartition, "append", held)
        producing = [broker.begin(produce_request("t", raw, index), 9) for index, raw in enumerate(keyed)]
        broker.run(eventually_async(lambda: len(begun), 2))

        async def close() -> None:
            closing = asyncio.ensure_future(broker.broker.close())
            await eventually_async(lambda: sum(each.done() for each in producing), 20)
            assert not closing.done()
            released.set()
            await closing

        broker.run(close())
        responses = [each.exception() or each.result() for each in producing]
        assert sum(isinstance(each, ProduceResponse) for each in responses) == 2
        assert sum(isinstance(each, CloseConnection) for each in responses) == 20
        assert len(begun) == 2
        broker.open()
        assert sum(broker.broker.partitions.get("t", index).log.log_end_offset for index in range(22)) == 2
