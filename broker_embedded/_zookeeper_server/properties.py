"""The properties of ZooKeeper 3.9's configuration file, and what their values may be.

A server ends with a stack trace at a wrong value, and ignores a misspelled name. So both are errors before it starts.
"""

import re
from collections.abc import Mapping
from typing import Final

from broker_embedded._config.addresses import parse_port
from broker_embedded._config.settings import INT_MAX, LONG_MAX, SettingError
from spark_kafka_native._protocol.nearest import did_you_mean

_PORTS: Final = frozenset({"clientPort", "secureClientPort"})
_NUMBERS: Final[Mapping[str, int]] = {
    "autopurge.purgeInterval": -INT_MAX,
    "autopurge.snapRetainCount": -INT_MAX,
    "clientPortListenBacklog": -1,
    "connectToLearnerMasterLimit": 0,
    "electionAlg": 3,
    "initLimit": 0,
    "jvm.pause.info-threshold.ms": 0,
    "jvm.pause.sleep.time.ms": 0,
    "jvm.pause.warn-threshold.ms": 0,
    "maxClientCnxns": -INT_MAX,
    "maxSessionTimeout": -1,
    "minSessionTimeout": -1,
    "multiAddress.reachabilityCheckTimeoutMs": 0,
    "observerMasterPort": -1,
    "quorum.cnxn.threads.size": -INT_MAX,
    "syncLimit": 0,
    "tickTime": 1,
}
"""The least value of each number."""
_MOST: Final[Mapping[str, int]] = {
    "electionAlg": 3,
    "jvm.pause.info-threshold.ms": LONG_MAX,
    "jvm.pause.sleep.time.ms": LONG_MAX,
    "jvm.pause.warn-threshold.ms": LONG_MAX,
    "observerMasterPort": 65535,
}
"""The greatest value of those numbers that cannot be as large as Java's int."""
_BOOLEANS: Final = frozenset(
    {
        "jvm.pause.monitor",
        "localSessionsEnabled",
        "localSessionsUpgradingEnabled",
        "multiAddress.enabled",
        "multiAddress.reachabilityCheckEnabled",
        "portUnification",
        "quorum.auth.enableSasl",
        "quorum.auth.learnerRequireSasl",
        "quorum.auth.serverRequireSasl",
        "quorumListenOnAllIPs",
        "reconfigEnabled",
        "sslQuorum",
        "sslQuorumReloadCertFiles",
        "standaloneEnabled",
        "syncEnabled",
    }
)
_TEXTS: Final = frozenset(
    {
        "clientPortAddress",
        "dataDir",
        "dataLogDir",
        "dynamicConfigFile",
        "oraclePath",
        "peerType",
        "secureClientPortAddress",
    }
)
_OF_JAVA: Final = """
allowSaslFailedClients bitHashCacheSize clientTcpKeepAlive cnxTimeout commitLogCount
connection_throttle_decrease_ratio connection_throttle_drop_decrease connection_throttle_drop_increase
connection_throttle_fill_count connection_throttle_fill_time connection_throttle_freeze_time
connection_throttle_global_session_weight connection_throttle_local_session_weight
connection_throttle_renew_session_weight connection_throttle_tokens connection_throttle_weight_enabled
electionPortBindRetry emulate353TTLNodes enableEagerACLCheck enforceQuota ensembleAuthName extendedTypesEnabled
flushDelay forceSnapshotSync forceSync forward_learner_requests_to_commit_processor_disabled
globalOutstandingLimit intBufferStartingSizeBytes kinit largeRequestMaxBytes largeRequestThreshold
leaderConnectDelayDuringRetryMs leaderServes letAnySaslUserDoX maxBatchSize maxCnxns
maxGetChildrenResponseCacheSize maxInProcessingDeadWatchers maxResponseCacheSize maxWriteQueuePollTime
preAllocSize quorumCnxnTimeoutMs requireKerberosConfig request_stale_connection_check
request_stale_latency_check request_throttle_drop_stale request_throttle_max_requests
request_throttle_stall_time serverCnxnFactory sessionRequireClientSASLAuth skipACL snapCount snapSizeLimitInKb
snapshotSizeFactor superUser tcpKeepAlive throttled_op_wait_time txnLogSizeLimitInKb watchManagerName
watcherCleanIntervalInSeconds watcherCleanThreadsNum watcherCleanThreshold
"""
"""The names without a dot that the server passes on as Java's system properties, such as ``zookeeper.snapCount``."""
_KNOWN: Final = frozenset().union(_PORTS, _NUMBERS, _BOOLEANS, _TEXTS, _OF_JAVA.split())
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}")
_REQUIRES: Final = (
    ("quorum.auth.serverRequireSasl", "quorum.auth.enableSasl"),
    ("quorum.auth.learnerRequireSasl", "quorum.auth.enableSasl"),
    ("quorum.auth.serverRequireSasl", "quorum.auth.learnerRequireSasl"),
)
"""If the first one is true, the second one must be, too."""
_DEFAULT_TICK_MS: Final = 3000


def check_properties(given: Mapping[str, str]) -> None:
    """Raise SettingError: a value is invalid, or a name is unknown.

    An unknown name with a dot is allowed, because it becomes a system property of Java, which plugins may read.
    """
    for key, value in given.items():
        if key not in _KNOWN and "." not in key:
            raise SettingError(key, f"ZooKeeper has no such property{did_you_mean(key, _KNOWN)}")
        _check_value(key, value.strip())
    for key, required in _REQUIRES:
        if _is_true(given, key) and not _is_true(given, required):
            raise SettingError(key, f"it requires {required}=true")
    _check_session_timeouts(given)
    _check_ensemble(given)


def _check_value(key: str, value: str) -> None:
    if key in _PORTS:
        parse_port(key, value)
    elif key in _NUMBERS:
        least, most = _NUMBERS[key], _MOST.get(key, INT_MAX)
        if not _NUMBER.fullmatch(value) or not least <= int(value) <= most:
            raise SettingError(key, f"{value!r} is not a whole number from {least} to {most}")
    elif key in _BOOLEANS and value.lower() not in {"true", "false"}:
        raise SettingError(key, f"{value!r} is neither true nor false")
    elif key == "peerType" and value.lower() not in {"participant", "observer"}:
        raise SettingError(key, f"{value!r} is neither participant nor observer")


def _check_session_timeouts(given: Mapping[str, str]) -> None:
    tick_ms = int(given.get("tickTime", _DEFAULT_TICK_MS))
    least, most = int(given.get("minSessionTimeout", -1)), int(given.get("maxSessionTimeout", -1))
    least_ms, most_ms = (2 * tick_ms if least == -1 else least), (20 * tick_ms if most == -1 else most)
    if least_ms > most_ms:
        key = "maxSessionTimeout" if least == -1 else "minSessionTimeout"
        problem = f"the shortest session timeout, {least_ms} ms, is longer than the longest one, {most_ms} ms"
        raise SettingError(key, f"{problem}; the defaults are 2 and 20 times tickTime")


def _check_ensemble(given: Mapping[str, str]) -> None:
    """Raise SettingError: what each member of an ensemble needs is missing."""
    members = [key for key, value in given.items() if key.startswith("server.") and ":observer" not in value]
    if len(members) > 1:
        for key in ("initLimit", "syncLimit"):
            if not int(given.get(key, 0)):
                raise SettingError(key, "is required, because the lines server.N name an ensemble")


def _is_true(given: Mapping[str, str], key: str) -> bool:
    return given.get(key, "").strip().lower() == "true"
