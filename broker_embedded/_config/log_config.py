"""Topic settings that the log honours: Kafka's names, defaults and bounds. And the settings of the log cleaner."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Final
from zlib import crc32

from broker_embedded._config.message_format import LATEST_MAGIC, record_magic
from broker_embedded._config.settings import (
    LONG_MAX,
    Setting,
    SettingError,
    format_value,
    parse_settings,
    refuse_unknown,
    setting,
    settings_of,
)
from spark_kafka_native._records.compression import CompressionType

SLOT_BYTES: Final = 24
"""Memory of one key in the offset map of a compaction (`_log.cleaner.offset_map`)."""
_CODECS: Final = {"uncompressed": CompressionType.NONE} | {codec.label: codec for codec in CompressionType}
_HOUR_MS: Final = 60 * 60 * 1000
_DAY_MS: Final = 24 * _HOUR_MS
_WEEK_MS: Final = 7 * _DAY_MS
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
_NOT_TIERED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "remote.storage.enable": "false",
        "remote.log.copy.disable": "false",
        "remote.log.delete.on.disable": "false",
        "local.retention.ms": "-2",
        "local.retention.bytes": "-2",
    }
)
"""The only allowed values of tiered storage settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """One topic's settings. The field ``segment_bytes`` is Kafka's topic setting ``segment.bytes``.

    Defaults are Apache Kafka 4.3's. A setting whose only choice is the default is one that this broker does not do yet:
    asking for anything else is an error rather than a surprise.
    """

    segment_bytes: int = setting(
        1024 * 1024 * 1024,
        "Start a new segment file before one would exceed this. Kafka 4 requires at least 1 MiB.",
        at_least=14,
    )
    segment_ms: int = setting(
        _WEEK_MS,
        "Start a new segment once records are this much younger than the segment's first.",
        at_least=1,
        at_most=LONG_MAX,
    )
    segment_jitter_ms: int = setting(
        0,
        "Start a new segment up to this much earlier than segment.ms, so that not all partitions do so at once.",
        at_least=0,
        at_most=LONG_MAX,
    )
    segment_index_bytes: int = setting(
        10 * 1024 * 1024, "Start a new segment before one of its indexes would exceed this.", at_least=4
    )
    index_interval_bytes: int = setting(4096, "Bytes of log between two entries of an index.", at_least=0)
    retention_ms: int = setting(
        _WEEK_MS,
        "Delete a segment once its youngest record is older than this; -1 keeps it forever.",
        at_least=-1,
        at_most=LONG_MAX,
    )
    retention_bytes: int = setting(
        -1,
        "Delete the oldest segments of a partition as long as the later ones have this many bytes; -1: no limit.",
        at_least=-1,
        at_most=LONG_MAX,
    )
    max_message_bytes: int = setting(1024 * 1024 + 12, "Largest record batch accepted, header included.", at_least=0)
    message_timestamp_type: str = setting(
        "CreateTime",
        "The source of timestamps: the producer, or the broker at the append.",
        choices=("CreateTime", "LogAppendTime"),
    )
    message_timestamp_before_max_ms: int = setting(
        LONG_MAX,
        "Refuse records whose timestamp is further than this in the past.",
        at_least=0,
        at_most=LONG_MAX,
    )
    message_timestamp_after_max_ms: int = setting(
        _HOUR_MS,
        "Refuse records whose timestamp is further than this in the future.",
        at_least=0,
        at_most=LONG_MAX,
    )
    file_delete_delay_ms: int = setting(
        60_000,
        "Time between the deletion of a segment and the removal of its files.",
        at_least=0,
        at_most=LONG_MAX,
    )
    flush_messages: int = setting(
        LONG_MAX,
        "Flush the log after this many appended records; 1 after every append.",
        at_least=1,
        at_most=LONG_MAX,
    )
    flush_ms: int = setting(
        LONG_MAX,
        "Flush the log once records are unflushed for this long.",
        at_least=0,
        at_most=LONG_MAX,
    )
    min_insync_replicas: int = setting(1, "In-sync replicas that an append with acks=all needs.", at_least=1)
    cleanup_policy: tuple[str, ...] = setting(
        ("delete",),
        "What happens to old records: delete removes whole segments by retention.ms and retention.bytes, compact all "
        "but the last record of each key; both, or empty for neither.",
        choices=("compact", "delete"),
    )
    min_cleanable_dirty_ratio: float = setting(
        0.5,
        "Compact a partition once this share of its bytes was appended since the last compaction.",
        at_least=0,
        at_most=1,
    )
    min_compaction_lag_ms: int = setting(
        0, "Do not compact records that are younger than this.", at_least=0, at_most=LONG_MAX
    )
    max_compaction_lag_ms: int = setting(
        LONG_MAX,
        "Compact a partition once records are uncompacted for this long, however few they are.",
        at_least=1,
        at_most=LONG_MAX,
    )
    delete_retention_ms: int = setting(
        _DAY_MS,
        "How long compaction keeps a tombstone, a record without a value, for consumers.",
        at_least=0,
        at_most=LONG_MAX,
    )
    compression_type: str = setting(
        "producer",
        "The codec of stored batches: that of the producer, or this one.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    )
    compression_gzip_level: int = setting(
        -1, "Level of compression.type=gzip, 1 to 9; -1: zlib's own choice.", at_least=-1, at_most=9
    )
    compression_lz4_level: int = setting(9, "Level of compression.type=lz4.", at_least=1, at_most=17)
    compression_zstd_level: int = setting(3, "Level of compression.type=zstd.", at_least=-131072, at_most=22)
    message_format_version: str = setting(
        "3.0-IV1",
        "Store records in the format of this release: before 0.10.0 message sets v0, before 0.11.0 v1, else record "
        "batches. Ignored once inter.broker.protocol.version is 3.0 or later. Only when as.version is before 4.0.",
        removed=True,
    )
    message_timestamp_difference_max_ms: int = setting(
        LONG_MAX,
        "Default of message.timestamp.before.max.ms and message.timestamp.after.max.ms. Only "
        "when as.version is before 4.0.",
        removed=True,
        at_least=0,
        at_most=LONG_MAX,
    )
    message_downconversion_enable: bool = setting(
        True,
        "Whether records are converted for consumers of old message formats; false: UNSUPPORTED_VERSION. Only when "
        "as.version is before 4.0.",
        removed=True,
    )
    preallocate: bool = setting(
        False, "Whether a segment file is created with its full size, and truncated when it is closed."
    )
    unclean_leader_election_enable: bool = setting(
        False,
        "Whether a replica that is not in sync may lead. The only replica is always in sync, so that it has no effect.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = setting(
        (),
        "Replicas whose leaders are throttled while followers copy from them, PARTITION:BROKER, or *. This "
        "broker has no followers.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = setting(
        (),
        "Replicas that are throttled while they copy, PARTITION:BROKER, or *. This broker has no followers.",
    )
    remote_storage_enable: bool = setting(
        False, "Whether old segments move to tiered storage. This broker has none, so only false is allowed."
    )
    remote_log_copy_disable: bool = setting(
        False,
        "Whether no further segments move to tiered storage. This broker has none, so only false is allowed.",
    )
    remote_log_delete_on_disable: bool = setting(
        False,
        "Whether segments in tiered storage are deleted when it is disabled. This broker has none, so only false is "
        "allowed.",
    )
    local_retention_ms: int = setting(
        -2,
        "retention.ms of segments that are also in tiered storage. This broker has none, so only -2 is allowed: the "
        "value of retention.ms.",
        at_least=-2,
        at_most=LONG_MAX,
    )
    local_retention_bytes: int = setting(
        -2,
        "retention.bytes of segments that are also in tiered storage. This broker has none, so only -2 is allowed: the "
        "value of retention.bytes.",
        at_least=-2,
        at_most=LONG_MAX,
    )

    inter_broker_protocol: str = ""
    """The broker's ``inter.broker.protocol.version``, empty if it is not set."""
    before_kafka_4: bool = field(default=True, compare=False)
    """Whether the release has the settings that Kafka 4 removed."""

    # Derived values that every append uses.
    timestamp_before_max_ms: int = field(init=False, compare=False)
    """How far in the past a record's timestamp may be."""
    timestamp_after_max_ms: int = field(init=False, compare=False)
    """How far in the future a record's timestamp may be."""
    record_magic: int = field(init=False, compare=False)
    """The stored message format: 0 and 1 are message sets, 2 record batches."""
    stores_as_sent: bool = field(init=False, compare=False)
    """Whether a record batch is stored as it was sent, without reading its records unless the topic ``bounds_age``."""

    def __post_init__(self) -> None:
        before, after = self.message_timestamp_before_max_ms, self.message_timestamp_after_max_ms
        difference = self.message_timestamp_difference_max_ms
        magic = record_magic(self.message_format_version, self.inter_broker_protocol)
        set_once = object.__setattr__  # the dataclass is frozen
        set_once(self, "timestamp_before_max_ms", difference if before == LONG_MAX else before)
        is_default = after in {_HOUR_MS, LONG_MAX}
        set_once(self, "timestamp_after_max_ms", difference if is_default and difference != LONG_MAX else after)
        set_once(self, "record_magic", magic)
        as_sent = self.compression_type == "producer" and not self.compacts and magic == LATEST_MAGIC
        set_once(self, "stores_as_sent", as_sent)

    @classmethod
    def parse(cls, given: Mapping[str, object], defaults: "LogConfig | None" = None) -> "LogConfig":
        """Settings by Kafka's names, text or values. Other settings are those of ``defaults``.

        Raises SettingError: an unknown key, with the nearest known one, or a value out of bounds.
        """
        base = defaults or cls()
        known = base.known()
        refuse_unknown(given, known)
        config = replace(base, **parse_settings(known, given))
        if config.compression_gzip_level == 0:
            raise SettingError("compression.gzip.level", "0 is not allowed, only -1 and 1 to 9")
        _check_lags(config)
        _check_throttled(config)
        _check_not_tiered(config)
        return config

    @classmethod
    def parse_stored(cls, stored: Mapping[str, object], defaults: "LogConfig") -> "LogConfig":
        """As ``parse``, for stored settings of a topic: settings that Kafka 4 removed are ignored."""
        removed = cls.settings().keys() - defaults.known().keys()
        return cls.parse({key: value for key, value in stored.items() if key not in removed}, defaults)

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Every setting by its key, for documents."""
        return settings_of(cls)

    def known(self) -> dict[str, Setting]:
        """The settings of topics in the release ``as.version``, by key."""
        return {key: item for key, item in self.settings().items() if self.before_kafka_4 or not item.removed}

    def to_properties(self) -> dict[str, str]:
        """Every setting as text by its key, as ``parse`` takes it."""
        settings = [each.name for each in fields(self) if "setting" in each.metadata]
        return {name.replace("_", "."): format_value(getattr(self, name)) for name in settings}

    @property
    def compacts(self) -> bool:
        """Whether only the last record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by their age or size."""
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The time after which a segment is rolled; compaction within its maximum lag requires a roll within it."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    def roll_jitter_ms(self, path: str) -> int:
        """The jitter of ``segment.ms``, so that not all segments are rolled at once. It depends on the path."""
        longest = min(self.segment_jitter_ms, self.segment_ms)
        return crc32(path.encode()) % longest if longest else 0

    @property
    def log_append_time(self) -> bool:
        """Whether records get the append time."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def bounds_age(self) -> bool:
        """Whether records can be too old, so that each timestamp must be checked."""
        return self.timestamp_before_max_ms != LONG_MAX and not self.log_append_time

    def stored_codec(self, sent: CompressionType) -> CompressionType:
        """The codec in which records sent in a codec are stored."""
        return sent if self.compression_type == "producer" else _CODECS[self.compression_type]

    def compression_level(self, codec: CompressionType) -> int | None:
        """The compression level, None for the codec's default."""
        if self.compression_type != codec.label:
            return None
        match codec:
            case CompressionType.GZIP:
                return self.compression_gzip_level if self.compression_gzip_level > 0 else None
            case CompressionType.LZ4:
                return self.compression_lz4_level
            case CompressionType.ZSTD:
                return self.compression_zstd_level
            case _:
                return None


def _check_lags(config: LogConfig) -> None:
    least, most = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if least > most:
        raise SettingError("min.compaction.lag.ms", f"{least} is more than max.compaction.lag.ms = {most}")


def _check_throttled(config: LogConfig) -> None:
    for key, replicas in (
        ("leader.replication.throttled.replicas", config.leader_replication_throttled_replicas),
        ("follower.replication.throttled.replicas", config.follower_replication_throttled_replicas),
    ):
        if replicas != ("*",) and not all(_REPLICA.fullmatch(replica) for replica in replicas):
            raise SettingError(key, f"must be * or a list of PARTITION:BROKER, not {format_value(replicas)!r}")


def _check_not_tiered(config: LogConfig) -> None:
    values = config.to_properties()
    for key, only in _NOT_TIERED.items():
        if values[key] != only:
            raise SettingError(
                key, f"{values[key]} is not supported, only {only}, because this broker has no tiered storage"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """The settings of the log cleaner. Its threads share ``dedupe_buffer_size`` and ``io_buffer_size``, in bytes."""

    threads: int = 1
    dedupe_buffer_size: int = 128 * 1024 * 1024
    io_buffer_load_factor: float = 0.9
    io_buffer_size: int = 512 * 1024
    io_max_bytes_per_second: float = float("inf")


def keys_fit(size_in_bytes: int, load_factor: float) -> int:
    """The number of keys that an offset map of this size holds at this load factor."""
    return int(size_in_bytes // SLOT_BYTES * load_factor)
