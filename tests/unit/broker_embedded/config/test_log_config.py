from dataclasses import replace

import pytest

from broker_embedded._config.log_config import LogConfig
from broker_embedded._config.log_defaults import (
    LOG_SYNONYMS,
    LONGER_UNITS,
    TWINS,
    in_milliseconds,
    log_default_settings,
    parse_log_defaults,
)
from broker_embedded._config.settings import LONG_MAX, SettingError
from spark_kafka_native._records.compression import CompressionType


def test_defaults_are_those_of_apache_kafka() -> None:
    assert LogConfig().to_properties() == {
        "segment.bytes": "1073741824",
        "segment.ms": "604800000",
        "segment.jitter.ms": "0",
        "segment.index.bytes": "10485760",
        "index.interval.bytes": "4096",
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "max.message.bytes": "1048588",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": str(LONG_MAX),
        "message.timestamp.after.max.ms": "3600000",
        "file.delete.delay.ms": "60000",
        "flush.messages": str(LONG_MAX),
        "flush.ms": str(LONG_MAX),
        "min.insync.replicas": "1",
        "cleanup.policy": "delete",
        "min.cleanable.dirty.ratio": "0.5",
        "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": str(LONG_MAX),
        "delete.retention.ms": "86400000",
        "compression.type": "producer",
        "compression.gzip.level": "-1",
        "compression.lz4.level": "9",
        "compression.zstd.level": "3",
        "message.format.version": "3.0-IV1",
        "message.timestamp.difference.max.ms": str(LONG_MAX),
        "message.downconversion.enable": "true",
        "preallocate": "false",
        "unclean.leader.election.enable": "false",
        "leader.replication.throttled.replicas": "",
        "follower.replication.throttled.replicas": "",
        "remote.storage.enable": "false",
        "remote.log.copy.disable": "false",
        "remote.log.delete.on.disable": "false",
        "local.retention.ms": "-2",
        "local.retention.bytes": "-2",
    }


def test_text_and_values_parse_and_come_back_as_text() -> None:
    config = LogConfig.parse({"segment.bytes": " 1000 ", "retention.ms": -1, "message.timestamp.type": "LogAppendTime"})
    assert (config.segment_bytes, config.retention_ms, config.log_append_time) == (1000, -1, True)
    assert LogConfig.parse(config.to_properties()) == config
    assert not LogConfig().log_append_time


def test_settings_that_a_topic_lacks_have_the_defaults() -> None:
    defaults = LogConfig(segment_bytes=5000, retention_bytes=70)
    assert LogConfig.parse({"retention.bytes": "80"}, defaults) == LogConfig(segment_bytes=5000, retention_bytes=80)
    assert LogConfig.parse({}, defaults) == defaults


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("segment.byte", "1", "no such setting; did you mean segment.bytes?"),
        ("min.cleanable.dirty.ratio", "1.01", "1.01 is out of range 0..1"),
        ("min.compaction.lag.ms", "-1", "-1 is out of range"),
        ("max.compaction.lag.ms", "0", "0 is out of range"),
        ("delete.retention.ms", "-1", "-1 is out of range"),
        ("segment.jitter.ms", "-1", "-1 is out of range"),
        ("segment.bytes", "13", "13 is out of range 14..2147483647"),
        ("segment.bytes", "2147483648", "2147483648 is out of range 14..2147483647"),
        ("segment.ms", "0", "0 is out of range 1..9223372036854775807"),
        ("retention.ms", "-2", "-2 is out of range -1..9223372036854775807"),
        ("retention.ms", "1.5", "'1.5' is not a whole number"),
        ("flush.messages", "0", "0 is out of range 1..9223372036854775807"),
        ("message.timestamp.type", "logappendtime", "'logappendtime' is not one of"),
        ("cleanup.policy", "compact,drop", "'drop' is not one of compact, delete"),
        ("compression.type", "none", "'none' is not one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.gzip.level", "0", "0 is not allowed, only -1 and 1 to 9"),
        ("compression.gzip.level", "10", "10 is out of range -1..9"),
        ("compression.lz4.level", "0", "0 is out of range 1..17"),
        ("compression.zstd.level", "23", "23 is out of range -131072..22"),
        ("message.format.version", "0.7", "'0.7' is not a release of Kafka since 0.8"),
        ("message.format.version", "newest", "'newest' is not a release of Kafka"),
        ("preallocate", "maybe", "'maybe' is neither true nor false"),
        (
            "remote.storage.enable",
            "true",
            "true is not supported, only false, because this broker has no tiered storage",
        ),
        ("remote.log.copy.disable", "true", "true is not supported, only false"),
        ("remote.log.delete.on.disable", "true", "true is not supported, only false"),
        ("local.retention.ms", "1000", "1000 is not supported, only -2, because this broker has no tiered storage"),
        ("local.retention.bytes", "-1", "-1 is not supported, only -2"),
        ("local.retention.ms", "-3", "-3 is out of range -2..9223372036854775807"),
        ("leader.replication.throttled.replicas", "0:1,one", "must be * or a list of PARTITION:BROKER, not '0:1,one'"),
        ("follower.replication.throttled.replicas", "*,0:1", "must be * or a list of PARTITION:BROKER, not '*,0:1'"),
    ],
)
def test_errors_name_the_key_and_say_why(key: str, value: object, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        LogConfig.parse({key: value})
    assert caught.value.key == key
    assert str(caught.value).startswith(f"{key}: {message}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("unclean.leader.election.enable", "true"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,12:34"),
        ("follower.replication.throttled.replicas", ""),
        ("remote.storage.enable", "false"),
        ("local.retention.ms", "-2"),
        ("local.retention.bytes", "-2"),
    ],
)
def test_settings_for_several_replicas_and_for_none_of_them_far_away(key: str, value: str) -> None:
    assert LogConfig.parse({key: value}).to_properties()[key] == value


def test_settings_that_kafka_4_removed_are_unknown_then() -> None:
    removed = {"message.format.version": "2.8", "message.timestamp.difference.max.ms": "5"}
    kafka_4 = LogConfig(before_kafka_4=False, retention_ms=7)
    gone = {*removed, "message.downconversion.enable"}
    assert LogConfig().known().keys() - kafka_4.known().keys() == gone
    for key, value in removed.items():
        with pytest.raises(SettingError, match=rf"^{key}: no such setting"):
            LogConfig.parse({key: value}, kafka_4)
    assert LogConfig.parse_stored({**removed, "retention.bytes": "8"}, kafka_4) == replace(kafka_4, retention_bytes=8)
    assert LogConfig.parse_stored(removed, LogConfig()) == LogConfig.parse(removed)
    with pytest.raises(SettingError, match=r"^never\.heard: no such setting"):
        LogConfig.parse_stored({"never.heard": "1"}, kafka_4)


def test_every_setting_is_documented() -> None:
    settings = LogConfig.settings()
    assert settings.keys() == LogConfig().to_properties().keys()
    assert all(setting.doc.endswith(".") for setting in settings.values())


@pytest.mark.parametrize(
    ("policy", "compacts", "deletes"),
    [("delete", False, True), ("compact", True, False), ("compact, delete", True, True), ("", False, False)],
)
def test_the_cleanup_policy_is_a_list(policy: str, compacts: bool, deletes: bool) -> None:
    config = LogConfig.parse({"cleanup.policy": policy})
    assert (config.compacts, config.deletes) == (compacts, deletes)
    assert LogConfig.parse(config.to_properties()) == config


def test_records_cannot_have_to_be_left_alone_for_longer_than_they_may_wait() -> None:
    with pytest.raises(SettingError, match=r"min\.compaction\.lag\.ms: 11 is more than max\.compaction\.lag\.ms = 10"):
        LogConfig.parse({"min.compaction.lag.ms": 11, "max.compaction.lag.ms": 10})


def test_a_compacted_topic_rolls_in_time_to_be_compacted_in_time() -> None:
    settings = {"segment.ms": 100, "max.compaction.lag.ms": 30}
    assert LogConfig.parse({**settings, "cleanup.policy": "compact"}).roll_ms == 30
    assert LogConfig.parse(settings).roll_ms == 100


@pytest.mark.parametrize(
    ("settings", "before", "after"),
    [
        ({}, LONG_MAX, 3_600_000),
        ({"message.timestamp.difference.max.ms": 5}, 5, 5),
        ({"message.timestamp.difference.max.ms": 5, "message.timestamp.before.max.ms": 7}, 7, 5),
        ({"message.timestamp.difference.max.ms": 5, "message.timestamp.after.max.ms": 7}, 5, 7),
        ({"message.timestamp.before.max.ms": 7, "message.timestamp.after.max.ms": 8}, 7, 8),
    ],
)
def test_the_older_bound_of_timestamps_stands_for_both_newer_ones(
    settings: dict[str, object], before: int, after: int
) -> None:
    config = LogConfig.parse(settings)
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (before, after)


@pytest.mark.parametrize(
    ("settings", "as_sent"),
    [
        ({}, True),
        ({"compression.type": "zstd"}, False),
        ({"cleanup.policy": "compact"}, False),
        ({"message.format.version": "0.10.2"}, False),
        ({"message.format.version": "0.11.0"}, True),
    ],
)
def test_settings_under_which_batches_are_stored_as_sent(settings: dict[str, object], as_sent: bool) -> None:
    assert LogConfig.parse(settings).stores_as_sent is as_sent
    assert LogConfig.parse({}, LogConfig.parse(settings)).stores_as_sent is as_sent


@pytest.mark.parametrize(
    ("settings", "bounded"),
    [
        ({}, False),
        ({"message.timestamp.before.max.ms": "7"}, True),
        ({"message.timestamp.difference.max.ms": "7"}, True),
        ({"message.timestamp.after.max.ms": "7"}, False),
        ({"message.timestamp.before.max.ms": "7", "message.timestamp.type": "LogAppendTime"}, False),
    ],
)
def test_whether_records_may_be_too_old(settings: dict[str, object], bounded: bool) -> None:
    assert LogConfig.parse(settings).bounds_age is bounded


@pytest.mark.parametrize("sent", list(CompressionType))
def test_the_codec_and_level_to_store_in(sent: CompressionType) -> None:
    assert LogConfig().stored_codec(sent) is sent
    assert LogConfig().compression_level(sent) is None
    for name, codec, level in [
        ("uncompressed", CompressionType.NONE, None),
        ("gzip", CompressionType.GZIP, 7),
        ("snappy", CompressionType.SNAPPY, None),
        ("lz4", CompressionType.LZ4, 11),
        ("zstd", CompressionType.ZSTD, -5),
    ]:
        levels = {"compression.gzip.level": 7, "compression.lz4.level": 11, "compression.zstd.level": -5}
        config = LogConfig.parse({"compression.type": name, **levels})
        assert config.stored_codec(sent) is codec
        assert config.compression_level(codec) == level
    assert LogConfig(compression_type="gzip").compression_level(CompressionType.GZIP) is None


def test_every_topic_setting_has_one_but_those_that_kafka_has_of_topics_alone() -> None:
    assert set(TWINS) == set(LOG_SYNONYMS.values())
    assert set(LogConfig.settings()) - set(TWINS) == {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    }
    assert {TWINS[topic_key]: topic_key for topic_key in TWINS} == dict(LOG_SYNONYMS)


def test_log_settings_can_change_at_run_time() -> None:
    assert all(setting.dynamic for setting in log_default_settings().values())


def test_those_that_another_one_stands_for_are_not_set_by_default() -> None:
    settings = log_default_settings()
    assert [key for key, setting in settings.items() if setting.default is None] == [
        key for key in settings if key in LONGER_UNITS or key == "log.flush.interval.ms"
    ]


def test_settings_that_a_change_lacks_stay() -> None:
    before = LogConfig(retention_bytes=5, retention_ms=6)
    assert parse_log_defaults({"log.retention.bytes": "7", "log.retention.ms": ""}, before) == LogConfig(
        retention_bytes=7, retention_ms=6
    )


def test_errors_name_the_brokers_setting() -> None:
    with pytest.raises(SettingError, match=r"^log\.retention\.ms: 'x' is not a whole number"):
        parse_log_defaults({"log.retention.ms": "x"}, LogConfig())


def test_the_shortest_unit_wins() -> None:
    assert in_milliseconds({}, {"log_retention_minutes": 2, "log_retention_hours": 3}) == {"log.retention.ms": 120_000}
    assert in_milliseconds({"log.retention.ms": "5"}, {"log_retention_minutes": 2}) == {"log.retention.ms": "5"}
    assert in_milliseconds({}, {"log_retention_hours": -1, "log_roll_hours": 1}) == {
        "log.retention.ms": -1,
        "log.roll.ms": 3_600_000,
    }
