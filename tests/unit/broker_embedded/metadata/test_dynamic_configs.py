import asyncio
import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_embedded._broker import Broker, DataDirectoryError
from broker_embedded._config.config import BrokerConfig
from broker_embedded._metadata.files.stored_configs import CONFIGS, StoredConfigs
from broker_embedded._platform.platform import Platform, RealFileSystem
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.broker.configs import BROKER, DELETE, SET, change, put, value_of
from tests.support.broker.disk import FaultyFileSystem
from tests.support.broker.driver import BrokerDriver, batch, idempotent

NOTHING_SET = StoredConfigs(cluster={"min.insync.replicas": "1"})
"""What is stored at first: min.insync.replicas is set for all brokers (KIP-966)."""


def test_a_setting_of_this_broker_goes_before_one_of_all(broker: BrokerDriver) -> None:
    put(broker, BROKER, "", max_connections="10", max_connections_per_ip="5")
    put(broker, BROKER, "1", max_connections="7")
    config = broker.broker.config
    assert (config.max_connections, config.max_connections_per_ip) == (7, 5)
    assert broker.broker.configs.started_with.max_connections == 2**31 - 1
    assert change(broker, BROKER, "1", ("max.connections", DELETE, None)).error_code == 0
    assert broker.broker.config.max_connections == 10


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_settings_outlive_the_broker(broker: BrokerDriver, how: str) -> None:
    put(broker, BROKER, "", log_retention_ms="5000")
    broker.create("t")
    getattr(broker, how)()
    assert broker.broker.config.log.retention_ms == 5000
    assert broker.broker.partitions.get("t", 0).log.config.retention_ms == 5000
    change(broker, BROKER, "", ("log.retention.ms", DELETE, None))
    getattr(broker, how)()
    assert broker.broker.config == broker.broker.configs.started_with


def test_open_logs_follow_the_defaults_unless_their_topic_says_otherwise(broker: BrokerDriver) -> None:
    broker.create("follows", partitions=2)
    broker.create("does-not", retention_ms="77")
    put(broker, BROKER, "1", log_retention_ms="5000")
    found = {str(partition): log.config.retention_ms for partition, log in broker.broker.logs.logs.items()}
    assert found == {"follows-0": 5000, "follows-1": 5000, "does-not-0": 77}
    broker.create("later")
    assert broker.broker.partitions.get("later", 0).log.config.retention_ms == 5000


def test_a_default_that_contradicts_a_topics_own_settings_is_refused(broker: BrokerDriver) -> None:
    broker.create("t", min_compaction_lag_ms="1000")
    result = change(broker, BROKER, "", ("log.cleaner.max.compaction.lag.ms", SET, "999"))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "(topic t)" in (result.error_message or "")
    assert broker.broker.configs.stored == NOTHING_SET
    put(broker, BROKER, "", log_cleaner_max_compaction_lag_ms="1000")


def test_idempotent_producers_are_forgotten_after_the_new_time(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.produce("t", idempotent(batch(b"a"), producer_id=7, sequence=0))
    log = broker.broker.partitions.get("t", 0).log
    put(broker, BROKER, "", producer_id_expiration_ms="1000")
    broker.clock.advance(999)
    assert log.expire_producers(broker.clock.now_ms()) == 0
    broker.clock.advance(1)
    assert log.expire_producers(broker.clock.now_ms()) == 1


def test_checking_alone_changes_nothing(broker: BrokerDriver) -> None:
    result = change(broker, BROKER, "1", ("log.retention.ms", SET, "5"), validate_only=True)
    assert result.error_code == 0
    assert broker.broker.configs.stored == NOTHING_SET
    assert not (broker.data_dir / CONFIGS.name).exists()


def test_an_equal_value_is_not_written_again(broker: BrokerDriver) -> None:
    put(broker, BROKER, "1", max_connections="7")
    before = (broker.data_dir / CONFIGS.name).stat().st_mtime_ns
    put(broker, BROKER, "1", max_connections="7")
    assert (broker.data_dir / CONFIGS.name).stat().st_mtime_ns == before


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path) -> None:
    disk = FaultyFileSystem(RealFileSystem())
    with BrokerDriver(tmp_path / "data", file_system=disk) as broker:
        put(broker, BROKER, "1", max_connections="7")
        disk.fail(f"* {CONFIGS.name}.tmp", errno.ENOSPC)
        result = change(broker, BROKER, "1", ("max.connections", SET, "8"))
        assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert CONFIGS.name in (result.error_message or "")
        assert broker.broker.config.max_connections == 7
        disk.heal()
        broker.restart()
        assert broker.broker.config.max_connections == 7


def test_stored_settings_that_are_invalid_now_are_ignored_with_a_message(
    broker: BrokerDriver, caplog: pytest.LogCaptureFixture
) -> None:
    stored = StoredConfigs(
        cluster={"log.retention.ms": "5", "of.the.future": "1", "ssl.client.auth": "none"},
        brokers={1: {"max.connections": "x", "num.io.threads": "9"}},
    )
    broker.run(broker.broker.close())
    path = broker.data_dir / CONFIGS.name
    path.write_bytes(CONFIGS.encode(stored))
    path.chmod(0o600)
    with caplog.at_level(logging.INFO, logger="broker_embedded._metadata.dynamic_configs"):
        broker.open()
    assert broker.broker.config.log.retention_ms == 5
    assert caplog.messages == [
        "a stored setting of all brokers is ignored: ssl.client.auth: the setting can change for a single broker only",
        "a stored setting of this broker is ignored: max.connections: 'x' is not a whole number",
        "settings without effect in this broker: num.io.threads, of.the.future",
    ]
    put(broker, BROKER, "", log_retention_bytes="9")
    assert value_of(broker, BROKER, "1", "log.retention.bytes") == "9"
    assert broker.broker.configs.stored.cluster["of.the.future"] == "1"


def test_concurrent_changes_are_serialized(broker: BrokerDriver) -> None:
    def setting(key: str) -> Callable[[StoredConfigs], StoredConfigs]:
        return lambda now: now.with_broker(1, {**now.brokers.get(1, {}), key: "7"})

    async def both() -> None:
        configs = broker.broker.configs
        await asyncio.gather(*(configs.change(setting(key)) for key in ("max.connections", "max.connections.per.ip")))

    broker.run(both())
    assert broker.broker.configs.own == {"max.connections": "7", "max.connections.per.ip": "7"}


def test_cleaner_threads_change_by_half_or_double_at_most(broker: BrokerDriver) -> None:
    for allowed in ("2", "4", "3", "1"):
        put(broker, BROKER, "", log_cleaner_threads=allowed)
    put(broker, BROKER, "", log_cleaner_threads="2")
    for refused in ("0", "5", "64"):
        result = change(broker, BROKER, "", ("log.cleaner.threads", SET, refused))
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert "log.cleaner.threads: the value is 2, so that one change must set 1 to 4" in (result.error_message or "")
    result = change(broker, BROKER, "", ("log.cleaner.threads", SET, "129"))
    assert (result.error_code != 0, broker.broker.config.log_cleaner_threads) == (True, 2)


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_setting_without_effect_is_stored_and_logged_once(
    broker: BrokerDriver, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="broker_embedded._metadata.dynamic_configs"):
        put(broker, BROKER, "1", num_io_threads="16", max_connections="9", log_retention_m="5")
        put(broker, BROKER, "1", max_connections="8")
    assert caplog.messages == [
        "num.io.threads is stored and has no effect in this broker: a fixed number of threads does all work",
        "'log.retention.m' is stored and has no effect in this broker: no such setting; did you mean log.retention.ms?",
    ]
    getattr(broker, how)()
    assert value_of(broker, BROKER, "1", "num.io.threads") == "16"
    assert broker.broker.configs.own["log.retention.m"] == "5"
    for refused in ("7", "33"):
        result = change(broker, BROKER, "1", ("num.io.threads", SET, refused))
        assert "num.io.threads: the value is 16, so that one change must set 8 to 32" in (result.error_message or "")
    put(broker, BROKER, "1", num_io_threads="32")


def test_a_setting_of_listeners_cannot_be_made(broker: BrokerDriver) -> None:
    key = "listener.name.plaintext.ssl.keystore.location"
    result = change(broker, BROKER, "1", (key, SET, "/k"))
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == f"{key}: settings of a listener cannot change while the broker runs"
    assert change(broker, BROKER, "1", (key, DELETE, None)).error_code == 0


def test_a_change_costs_the_same_however_many_settings_were_made(
    broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    original = BrokerConfig.changed

    def counted(config: BrokerConfig, *args: Any, **more: Any) -> BrokerConfig:
        nonlocal calls
        calls += 1
        return original(config, *args, **more)

    monkeypatch.setattr(BrokerConfig, "changed", counted)
    found = []
    for number in range(20):
        put(broker, BROKER, "1", **{f"unknown_setting_{number}": "x"})
        found.append(calls)
        calls = 0
    assert set(found) == {found[0]}, found


def test_an_invalid_stored_setting_can_be_replaced_by_a_valid_one_only(broker: BrokerDriver) -> None:
    path = broker.data_dir / CONFIGS.name
    broker.run(broker.broker.close())
    stored = StoredConfigs(cluster=NOTHING_SET.cluster, brokers={1: {"log.cleaner.threads": "no number"}})
    path.write_bytes(CONFIGS.encode(stored))
    broker.open()
    put(broker, BROKER, "1", log_retention_ms="5000")
    put(broker, BROKER, "1", log_cleaner_threads="2")
    put(broker, BROKER, "1", log_retention_ms="6000")
    assert (broker.broker.config.log_cleaner_threads, broker.broker.config.log.retention_ms) == (2, 6000)
    again = change(broker, BROKER, "1", ("log.cleaner.threads", SET, "no number"))
    assert again.error_code == ErrorCode.INVALID_REQUEST
    assert broker.broker.config.log_cleaner_threads == 2


@pytest.mark.parametrize("name", ["configs.json", "scram-credentials.json"])
def test_a_start_removes_an_unfinished_file_that_other_users_may_read(
    broker: BrokerDriver, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """An earlier version made it with mode 0644 and crashed before it was renamed."""
    leftover = broker.data_dir / f"{name}.tmp"
    leftover.write_bytes(b"secret")
    leftover.chmod(0o644)
    with pytest.raises(DataDirectoryError, match="in use by another broker"):
        Broker.open(BrokerConfig(), str(broker.data_dir), Platform())
    assert leftover.exists(), "it could be that of the broker that runs"
    broker.run(broker.broker.close())
    broker.open()
    assert not leftover.exists()
    assert f"{leftover}: removed" in caplog.text
