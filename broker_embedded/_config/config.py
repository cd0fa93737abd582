"""The broker's settings: Apache Kafka's names, defaults and bounds, for all settings that this broker implements.

`python -m broker_embedded --help` and the documents are made from the table here. The settings of logs, such as
``log.retention.ms``, are declared with the topic settings that they are the defaults of (`log_config`).
Kafka's other settings are in `unused_settings`.
"""

import dataclasses
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from broker_embedded._config.consumer_settings import ConsumerGroupSettings
from broker_embedded._config.listener_settings import PREFIX, ListenerSettings, apart
from broker_embedded._config.log_config import LogConfig, keys_fit
from broker_embedded._config.log_defaults import LOG_SYNONYMS, in_milliseconds, log_default_settings, parse_log_defaults
from broker_embedded._config.message_format import is_ignored, parse_release, record_magic
from broker_embedded._config.old_names import OLD_NAMES, renamed
from broker_embedded._config.releases import RELEASE_NAMES, TRANSACTION_VERSION, Release, release
from broker_embedded._config.settings import (
    LONG_MAX,
    SHORT_MAX,
    Setting,
    SettingError,
    format_value,
    parse_settings,
    refuse_unknown,
    setting,
    settings_of,
)
from broker_embedded._config.topic_settings import TopicSettings
from broker_embedded._config.unused_settings import unused_settings
from broker_embedded._config.zookeeper_settings import ZooKeeperSettings
from spark_kafka_native._net.secret import HIDDEN

_MIB: Final = 1024 * 1024
_MAX_THREADS: Final = 128
"""Upper bound of the threads of one pool, because each takes a stack and buffers. Apache Kafka has no bound."""
_MAX_UNKNOWN: Final = 100
"""Upper bound of the unknown settings stored for one broker, and of those for all brokers. Kafka has no bound."""


@dataclass(frozen=True, kw_only=True)
class BrokerConfig(ConsumerGroupSettings, ZooKeeperSettings, TopicSettings, ListenerSettings):
    """Every setting of a broker. The field ``num_partitions`` is Kafka's ``num.partitions``.

    The fields of the last base come first. It has no slots, because classes with slots allow only one base.
    """

    node_id: int = setting(1, "The id of this broker.", at_least=0)
    cluster_id: str = setting(
        "", "The id of the cluster. Empty: the id in the data directory, or a random one for a new directory."
    )
    log_dirs: str = setting("", "The data directory, only one. --data-dir overrides it.")
    as_version: str = setting(
        RELEASE_NAMES[-1],
        f"The release of Apache Kafka to emulate, {RELEASE_NAMES[0]} to {RELEASE_NAMES[-1]}. The broker "
        "offers the versions of this release of all APIs that it serves.",
    )
    inter_broker_protocol_version: str = setting(
        "",
        "The release of the protocol between brokers. Before 3.0 it limits message.format.version, from 3.0 on "
        "message.format.version is ignored. Empty: neither. Only if as.version is before 4.0.",
        removed=True,
    )
    broker_rack: str | None = setting(None, "The rack of this broker, as clients see it in metadata.")
    auto_create_topics_enable: bool = setting(True, "Whether a Metadata request for a missing topic creates it.")
    delete_topic_enable: bool = setting(True, "Whether topics may be deleted.")
    max_request_partition_size_limit: int = setting(
        2000, "Partitions in one DescribeTopicPartitions response at most.", at_least=1
    )
    fetch_max_bytes: int = setting(57671680, "Bytes of records in one Fetch response at most.", at_least=1024)
    producer_id_expiration_ms: int = setting(
        86400000, "Forget an idempotent producer this long after its last append.", at_least=1, dynamic=True
    )
    producer_id_expiration_check_interval_ms: int = setting(
        600000, "Interval of the check for expired producers.", at_least=1
    )

    socket_request_max_bytes: int = setting(
        104857600, "Largest request in bytes; a larger one closes its connection.", at_least=1
    )
    socket_send_buffer_bytes: int = setting(
        -1, "SO_SNDBUF of connections; -1: the system's default. Kafka's default is 102400.", at_least=-1
    )
    socket_receive_buffer_bytes: int = setting(
        -1, "SO_RCVBUF of connections; -1: the system's default. Kafka's default is 102400.", at_least=-1
    )
    socket_listen_backlog_size: int = setting(50, "Connections that may wait to be accepted.", at_least=1)
    connections_max_idle_ms: int = setting(
        600000, "Close a connection that was idle for this long; -1: never.", at_least=-1, at_most=LONG_MAX
    )
    max_connections: int = setting(
        2**31 - 1, "Open connections; further ones wait to be accepted.", at_least=0, dynamic=True
    )
    max_connections_per_ip: int = setting(
        2**31 - 1, "Open connections from one address; further ones are closed.", at_least=0, dynamic=True
    )
    max_connections_per_ip_overrides: tuple[str, ...] = setting(
        (), "max.connections.per.ip for single addresses or hosts, ADDRESS:NUMBER, comma-separated.", dynamic=True
    )
    max_connection_creation_rate: int = setting(
        2**31 - 1, "Connections accepted in a second; further ones wait to be accepted.", at_least=0, dynamic=True
    )
    queued_max_request_bytes: int = setting(
        536870912,
        "Most bytes of requests over 16 KiB in memory; above it no further request is read. -1: no limit, which is "
        "Kafka's default.",
        at_least=-1,
        at_most=LONG_MAX,
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        1000, "Most fetch sessions (KIP-227) at the same time; further clients fetch without a session.", at_least=0
    )
    quota_window_num: int = setting(11, "Number of samples over which the rate of a quota is averaged.", at_least=1)
    quota_window_size_seconds: int = setting(1, "Length of each sample of a quota's rate.", at_least=1)
    controller_quota_window_num: int = setting(
        11, "quota.window.num for controller_mutation_rate, the quota of created and deleted partitions.", at_least=1
    )
    controller_quota_window_size_seconds: int = setting(
        1, "quota.window.size.seconds for controller_mutation_rate.", at_least=1
    )

    log_retention_minutes: int | None = setting(
        None, "log.retention.ms in minutes, where that is not set.", at_least=-1
    )
    log_retention_hours: int = setting(168, "log.retention.ms in hours, where neither is set.", at_least=-1)
    log_roll_hours: int = setting(168, "log.roll.ms in hours, where that is not set.", at_least=1)
    log_roll_jitter_hours: int = setting(0, "log.roll.jitter.ms in hours, where that is not set.", at_least=0)
    log_retention_check_interval_ms: int = setting(
        300000, "Interval of the check for segments to delete.", at_least=1, at_most=LONG_MAX
    )
    log_flush_scheduler_interval_ms: int = setting(
        1000,
        "Interval of the check for logs to flush by flush.ms. Kafka's default is never.",
        at_least=1,
        at_most=LONG_MAX,
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        60000, "Interval of writing the recovery point of each log.", at_least=1
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        60000, "Interval of writing the log start offset of each log.", at_least=1
    )

    replica_high_watermark_checkpoint_interval_ms: int = setting(
        5000, "Interval of writing the high watermark of each log.", at_least=1, at_most=LONG_MAX
    )

    log_cleaner_enable: bool = setting(True, "Whether topics with cleanup.policy=compact are compacted.")
    log_cleaner_threads: int = setting(
        1,
        "Partitions that are compacted at the same time. At run time it can be halved or doubled in one change.",
        at_least=0,
        at_most=_MAX_THREADS,
        dynamic=True,
        is_pool=True,
    )
    log_cleaner_backoff_ms: int = setting(
        15000,
        "Time until the next check if the last check found no partition to compact.",
        at_least=0,
        at_most=LONG_MAX,
        dynamic=True,
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        134217728,
        "Bytes of memory for the last offsets of keys, shared by the threads: 24 for a key. More than 1 MiB a thread.",
        at_least=1,
        at_most=LONG_MAX,
        dynamic=True,
    )
    log_cleaner_io_buffer_load_factor: float = setting(
        0.9, "Used share of the dedupe buffer. A larger share is slower.", at_least=0, at_most=1, dynamic=True
    )
    log_cleaner_io_buffer_size: int = setting(
        524288,
        "Bytes of memory for reading and writing, shared by the threads; a larger batch takes what it needs.",
        at_least=0,
        dynamic=True,
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        sys.float_info.max,
        "Bytes a second that compaction reads and writes, on average.",
        at_least=1,
        at_most=math.inf,
        dynamic=True,
    )

    offset_metadata_max_bytes: int = setting(
        4096, "Largest metadata that a client may store with an offset.", at_least=0
    )
    offsets_topic_num_partitions: int = setting(
        50, "Partitions of __consumer_offsets; fixed once the topic exists.", at_least=1
    )
    offsets_topic_replication_factor: int = setting(
        1, "Replicas of __consumer_offsets. Kafka's default, 3, needs three brokers.", at_least=1, at_most=SHORT_MAX
    )
    offsets_topic_segment_bytes: int = setting(104857600, "Segment size of __consumer_offsets.", at_least=1)
    offsets_retention_minutes: int = setting(
        10080,
        "Delete a group's offsets this long after its last member left, or after the commit if it never had one.",
        at_least=1,
    )
    offsets_retention_check_interval_ms: int = setting(
        600000, "Interval of the check for expired offsets and empty groups.", at_least=1, at_most=LONG_MAX
    )
    group_min_session_timeout_ms: int = setting(
        6000, "Shortest session timeout of a member of a classic group.", at_least=0
    )
    group_max_session_timeout_ms: int = setting(
        1800000, "Longest session timeout of a member of a classic group.", at_least=0
    )
    group_initial_rebalance_delay_ms: int = setting(
        3000, "How long the first rebalance of an empty classic group waits for more members.", at_least=0
    )
    group_max_size: int = setting(2**31 - 1, "Members of a classic group at most.", at_least=1)

    transaction_max_timeout_ms: int = setting(900000, "Longest transaction timeout of a producer.", at_least=1)
    transactional_id_expiration_ms: int = setting(
        604800000, "Delete a transactional id this long after its last transaction.", at_least=1
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        10000, "Interval of the check for transactions that have timed out.", at_least=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        3600000, "Interval of the check for expired transactional ids.", at_least=1
    )
    transaction_partition_verification_enable: bool = setting(
        True,
        "Whether transactional appends are verified with the coordinator.",
        dynamic=True,
    )
    transaction_state_log_num_partitions: int = setting(
        50, "Partitions of __transaction_state; fixed once the topic exists.", at_least=1
    )
    transaction_state_log_replication_factor: int = setting(
        1, "Replicas of __transaction_state. Kafka's default, 3, needs three brokers.", at_least=1, at_most=SHORT_MAX
    )
    transaction_state_log_min_isr: int = setting(
        1, "min.insync.replicas of __transaction_state. Kafka's default, 2, needs two brokers.", at_least=1
    )
    transaction_state_log_segment_bytes: int = setting(104857600, "Segment size of __transaction_state.", at_least=1)
    transaction_version: int | None = setting(
        None,
        "Level of the feature transaction.version until UpdateFeatures sets another one. Not set: the level of the "
        "release. Kafka does not have this setting.",
        at_least=0,
    )

    log: LogConfig = field(default_factory=LogConfig)

    given: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The settings at the start, except those of single listeners, as text, secrets hidden."""
    unused: Mapping[str, object] = field(default_factory=dict, compare=False)
    """The values of `unused_settings` that are set, by key."""

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Self:
        """A configuration from Kafka's names, text or values.

        Raises SettingError: an unknown key, with the nearest that is known; an invalid value; contradicting listeners.
        """
        given, of_listeners = apart(renamed(given))
        known = cls.settings_for(given)
        refuse_unknown(given, known)
        own = _settings()
        values = parse_settings(own, {key: value for key, value in given.items() if key in own})
        of_logs = in_milliseconds({key: value for key, value in given.items() if key in LOG_SYNONYMS}, values)
        log = parse_log_defaults(of_logs, _log_defaults(**values))
        unused = {key: known[key].parse(value) for key, value in given.items() if key in unused_settings()}
        text = {key: HIDDEN if known[key].is_secret else format_value(value) for key, value in given.items()}
        config = cls(**values, log=log, own=of_listeners, given=text, unused=unused)
        config.check()
        config._check_one_broker()
        return config

    def changed(self, dynamic: Mapping[str, str], *, of_all_brokers: bool = False) -> Self:
        """The configuration with the dynamic settings applied. Unknown settings are skipped, as in Kafka.

        Raises SettingError: an invalid value, a key that is not dynamic, or too many unknown keys.
        """
        known = self.known()
        for key in dynamic:
            _check_dynamic(key, known.get(key), of_all_brokers=of_all_brokers)
        unknown = dynamic.keys() - known.keys()
        if len(unknown) > _MAX_UNKNOWN:
            raise SettingError(min(unknown)[:100], f"{len(unknown)} unknown settings are more than {_MAX_UNKNOWN}")
        if too_long := [key for key in unknown if len(key) + len(dynamic[key]) > SHORT_MAX]:
            problem = f"an unknown setting and its value may have {SHORT_MAX} characters together"
            raise SettingError(min(too_long)[:100], problem)
        unused = {key: known[key].parse(value) for key, value in dynamic.items() if key in unused_settings()}
        used = {key: value for key, value in dynamic.items() if key not in unused and key not in unknown}
        own = parse_settings(known, {key: used[key] for key in used if key not in LOG_SYNONYMS})
        log = parse_log_defaults({key: used[key] for key in used if key in LOG_SYNONYMS}, self.log)
        config = dataclasses.replace(self, **own, log=log, unused={**self.unused, **unused})
        config.check()
        return config

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """The implemented settings, by key. Those of logs have the broker's names."""
        return {**_settings(), **log_default_settings()}

    @classmethod
    def all_settings(cls) -> dict[str, Setting]:
        """Every setting by its key, including those of Kafka that this broker does not implement."""
        return {**cls.settings(), **unused_settings()}

    @classmethod
    def settings_for(cls, given: Mapping[str, object]) -> dict[str, Setting]:
        """The settings of a broker that is started with ``given``: those of the release ``as.version``.

        Raises SettingError: an unknown release.
        """
        settings = cls.all_settings()
        wanted = settings["as.version"].parse(given.get("as.version", RELEASE_NAMES[-1]))
        return _of_release(settings, release(str(wanted)))

    def known(self) -> dict[str, Setting]:
        """The settings of the release ``as.version``."""
        return _of_release(self.all_settings(), self.release)

    def to_properties(self) -> dict[str, str | None]:
        """Every setting as text by its key, None for one that is not set."""
        own = {key: getattr(self, key.replace(".", "_")) for key in _settings()}
        of_logs = self.log.to_properties()
        found = {key: None if value is None else format_value(value) for key, value in own.items()}
        found |= {key: of_logs[topic_key] for key, topic_key in LOG_SYNONYMS.items()}
        for key, item in unused_settings().items():
            value = self.unused.get(key, item.default)
            found[key] = None if value is None else format_value(value)
        found |= {old: found[name] for old, name in OLD_NAMES.items() if old in unused_settings()}
        return {key: found[key] for key in self.known()}

    @property
    def release(self) -> Release:
        """The release ``as.version``."""
        return release(self.as_version)

    def check(self) -> None:
        """Raise SettingError for settings that contradict each other or that this broker cannot serve."""
        release(self.as_version)
        self.check_listeners(self.as_version)
        if "," in self.log_dirs:
            raise SettingError("log.dirs", "only one directory is supported")
        self._check_transaction_version()
        self._check_message_format()
        self._check_cleaner()
        self.check_consumer_groups()
        self.connection_overrides()
        self.metrics_address()
        self.partition_counts()
        self.zookeeper()

    def _check_one_broker(self) -> None:
        """Raise SettingError for a replication factor or ``min.insync.replicas`` above 1, because there is one broker.

        Apache Kafka starts, and refuses to create the topic or to append to it. At run time ``min.insync.replicas`` may
        be above 1, as in Apache Kafka.
        """
        for key, replicas in (
            ("default.replication.factor", self.default_replication_factor),
            ("offsets.topic.replication.factor", self.offsets_topic_replication_factor),
            ("transaction.state.log.replication.factor", self.transaction_state_log_replication_factor),
            ("transaction.state.log.min.isr", self.transaction_state_log_min_isr),
            ("min.insync.replicas", self.log.min_insync_replicas),
        ):
            if replicas > 1:
                raise SettingError(key, f"{replicas} replicas need {replicas} brokers, but there is one; set {key}=1")

    def _check_transaction_version(self) -> None:
        known = {feature.name: feature for feature in self.release.features}.get(TRANSACTION_VERSION)
        highest = 0 if known is None else known.max_level
        if self.transaction_version is not None and self.transaction_version > highest:
            problem = f"{self.transaction_version} is above {highest}, the highest level of Kafka {self.as_version}"
            raise SettingError(TRANSACTION_VERSION, f"{problem} (as.version)")

    def _check_message_format(self) -> None:
        log = self.log
        if "log.message.format.version" in self.given and not is_ignored(log.inter_broker_protocol):
            wanted = record_magic(log.message_format_version, "")
            if log.record_magic < wanted:
                raise SettingError(
                    "log.message.format.version",
                    f"{log.message_format_version} is newer than inter.broker.protocol.version = "
                    f"{log.inter_broker_protocol}",
                )

    def _check_cleaner(self) -> None:
        bytes_each = self.log_cleaner_dedupe_buffer_size // max(self.log_cleaner_threads, 1)
        if bytes_each <= _MIB:
            raise SettingError("log.cleaner.dedupe.buffer.size", "each of log.cleaner.threads needs more than 1 MiB")
        if not keys_fit(bytes_each, self.log_cleaner_io_buffer_load_factor):
            raise SettingError("log.cleaner.io.buffer.load.factor", "the buffer is too small for a single key")

    def connection_overrides(self) -> dict[str, int]:
        """The limits of max.connections.per.ip.overrides, by address or host."""
        found: dict[str, int] = {}
        for item in self.max_connections_per_ip_overrides:
            host, separator, count = item.rpartition(":")
            if not separator or not host or not (count.isascii() and count.isdigit()):
                raise SettingError("max.connections.per.ip.overrides", f"{item!r} is not ADDRESS:NUMBER")
            found[host.removeprefix("[").removesuffix("]")] = int(count)
        return found


def _log_defaults(
    *, as_version: str = RELEASE_NAMES[-1], inter_broker_protocol_version: str = "", **_: object
) -> LogConfig:
    """The default settings of logs, which depend on the release."""
    passed_for = release(as_version)
    if inter_broker_protocol_version:
        parse_release("inter.broker.protocol.version", inter_broker_protocol_version)
    before_kafka_4 = not passed_for.since("4.0")
    config = LogConfig(inter_broker_protocol=inter_broker_protocol_version, before_kafka_4=before_kafka_4)
    if before_kafka_4:
        config = dataclasses.replace(config, message_timestamp_after_max_ms=LONG_MAX)
    if not passed_for.since("3.0"):
        config = dataclasses.replace(config, message_format_version=passed_for.message_format)
    return config


def _check_dynamic(key: str, known: Setting | None, *, of_all_brokers: bool) -> None:
    """Raise SettingError for a setting that cannot change at run time."""
    if key.startswith(PREFIX):
        raise SettingError(key, "settings of a listener cannot change while the broker runs")
    if known is not None and not known.dynamic:
        raise SettingError(key, "the setting cannot change while the broker runs")
    if known is not None and known.per_broker and of_all_brokers:
        raise SettingError(key, "the setting can change for a single broker only")


def _of_release(settings: Mapping[str, Setting], wanted: Release) -> dict[str, Setting]:
    known = {key: item for key, item in settings.items() if not item.since or wanted.since(item.since)}
    return {key: item for key, item in known.items() if not (item.removed and wanted.since("4.0"))}


def _settings() -> dict[str, Setting]:
    """Every setting but those of logs, what is declared here before what is inherited."""
    found = settings_of(BrokerConfig)
    return {key: found[key] for key in sorted(found, key=lambda key: key.startswith("group.consumer."))}
