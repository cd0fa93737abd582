"""Apache Kafka's releases, which this broker can emulate for clients (``as.version``).

A release has API versions, features and some differences in behaviour. `_OFFERED` has the versions of every API that
brokers of each release offer to clients, up to 3.9 with ZooKeeper, from 4.0 with KRaft. `NOT_SERVED` are those that
this broker does not serve.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from broker_embedded._config.settings import SettingError
from spark_kafka_native._protocol.schema import VersionRange

RELEASE_NAMES: Final = (
    *("0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2", "0.11", "1.0", "1.1"),
    *("2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8"),
    *("3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3"),
)
"""Every release that can be emulated, the oldest first."""

_OFFERED: Final = """
0 Produce | 0.8.2: 0, 0.9: 0-1, 0.10.0: 0-2, 0.11: 0-3, 1.0: 0-5, 2.0: 0-6, 2.1: 0-7, 2.4: 0-8, 2.8: 0-9, 3.7: 0-10,
    3.8: 0-11, 4.0: 0-12, 4.1: 0-13
1 Fetch | 0.8.2: 0, 0.9: 0-1, 0.10.0: 0-2, 0.10.1: 0-3, 0.11: 0-5, 1.0: 0-6, 1.1: 0-7, 2.0: 0-8, 2.1: 0-10, 2.3: 0-11,
    2.7: 0-12, 3.1: 0-13, 3.5: 0-15, 3.7: 0-16, 3.9: 0-17, 4.0: 4-17, 4.1: 4-18
2 ListOffsets | 0.8.2: 0, 0.10.1: 0-1, 0.11: 0-2, 2.0: 0-3, 2.1: 0-4, 2.2: 0-5, 2.8: 0-6, 3.0: 0-7, 3.5: 0-8, 3.9:
    0-9, 4.0: 1-10, 4.2: 1-11
3 Metadata | 0.8.2: 0, 0.10.0: 0-1, 0.10.1: 0-2, 0.11: 0-4, 1.0: 0-5, 2.0: 0-6, 2.1: 0-7, 2.3: 0-8, 2.4: 0-9, 2.8:
    0-11, 3.1: 0-12, 4.0: 0-13
4 LeaderAndIsr | 0.10.0: 0, 1.0: 0-1, 2.2: 0-2, 2.4: 0-4, 2.8: 0-5, 3.2: 0-6, 3.4: 0-7, 4.0: none
5 StopReplica | 0.10.0: 0, 2.2: 0-1, 2.4: 0-2, 2.6: 0-3, 3.4: 0-4, 4.0: none
6 UpdateMetadata | 0.10.0: 0-2, 0.10.2: 0-3, 1.0: 0-4, 2.2: 0-5, 2.4: 0-6, 2.8: 0-7, 3.4: 0-8, 4.0: none
7 ControlledShutdown | 0.10.0: 1, 1.0: 0-1, 2.2: 0-2, 2.4: 0-3, 4.0: none
8 OffsetCommit | 0.8.2: 0-1, 0.9: 0-2, 0.11: 0-3, 2.0: 0-4, 2.1: 0-6, 2.3: 0-7, 2.4: 0-8, 3.7: 0-9, 4.0: 2-9, 4.2:
    2-10
9 OffsetFetch | 0.8.2: 0-1, 0.10.2: 0-2, 0.11: 0-3, 2.0: 0-4, 2.1: 0-5, 2.4: 0-6, 2.5: 0-7, 3.0: 0-8, 3.7: 0-9, 4.0:
    1-9, 4.2: 1-10
10 FindCoordinator | 0.8.2: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 3.0: 0-4, 3.8: 0-5, 3.9: 0-6
11 JoinGroup | 0.9: 0, 0.10.1: 0-1, 0.11: 0-2, 2.0: 0-3, 2.2: 0-4, 2.3: 0-5, 2.4: 0-6, 2.5: 0-7, 3.2: 0-9, 4.0: 2-9,
    4.1: 0-9
12 Heartbeat | 0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-4
13 LeaveGroup | 0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-4, 3.2: 0-5
14 SyncGroup | 0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-4, 2.5: 0-5
15 DescribeGroups | 0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.3: 0-3, 2.4: 0-5, 4.0: 0-6
16 ListGroups | 0.9: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 2.6: 0-4, 3.8: 0-5
17 SaslHandshake | 0.10.0: 0, 1.0: 0-1
18 ApiVersions | 0.10.0: 0, 0.11: 0-1, 2.0: 0-2, 2.4: 0-3, 3.9: 0-4
19 CreateTopics | 0.10.1: 0, 0.10.2: 0-1, 0.11: 0-2, 2.0: 0-3, 2.4: 0-5, 2.7: 0-6, 2.8: 0-7, 4.0: 2-7
20 DeleteTopics | 0.10.1: 0, 0.11: 0-1, 2.0: 0-2, 2.1: 0-3, 2.4: 0-4, 2.7: 0-5, 2.8: 0-6, 4.0: 1-6
21 DeleteRecords | 0.11: 0, 2.0: 0-1, 2.6: 0-2
22 InitProducerId | 0.11: 0, 2.0: 0-1, 2.4: 0-2, 2.5: 0-3, 2.7: 0-4, 3.8: 0-5
23 OffsetForLeaderEpoch | 0.11: 0, 2.0: 0-1, 2.1: 0-2, 2.3: 0-3, 2.8: 0-4, 4.0: 2-4
24 AddPartitionsToTxn | 0.11: 0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.6: 0-4, 3.8: 0-5
25 AddOffsetsToTxn | 0.11: 0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.8: 0-4
26 EndTxn | 0.11: 0, 2.0: 0-1, 2.7: 0-2, 2.8: 0-3, 3.8: 0-4, 4.0: 0-5
27 WriteTxnMarkers | 0.11: 0, 2.8: 0-1, 4.0: 1, 4.2: 1-2
28 TxnOffsetCommit | 0.11: 0, 2.0: 0-1, 2.1: 0-2, 2.5: 0-3, 3.8: 0-4, 4.0: 0-5
29 DescribeAcls | 0.11: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3
30 CreateAcls | 0.11: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3
31 DeleteAcls | 0.11: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3
32 DescribeConfigs | 0.11: 0, 1.1: 0-1, 2.0: 0-2, 2.6: 0-3, 2.8: 0-4, 4.0: 1-4
33 AlterConfigs | 0.11: 0, 2.0: 0-1, 2.8: 0-2
34 AlterReplicaLogDirs | 1.0: 0, 2.0: 0-1, 2.8: 0-2, 4.0: 1-2
35 DescribeLogDirs | 1.0: 0, 2.0: 0-1, 2.6: 0-2, 3.2: 0-3, 3.3: 0-4, 4.0: 1-4, 4.3: 1-5
36 SaslAuthenticate | 1.0: 0, 2.2: 0-1, 2.5: 0-2
37 CreatePartitions | 1.0: 0, 2.0: 0-1, 2.5: 0-2, 2.7: 0-3
38 CreateDelegationToken | 1.1: 0, 2.0: 0-1, 2.4: 0-2, 3.3: 0-3, 4.0: 1-3
39 RenewDelegationToken | 1.1: 0, 2.0: 0-1, 2.5: 0-2, 4.0: 1-2
40 ExpireDelegationToken | 1.1: 0, 2.0: 0-1, 2.5: 0-2, 4.0: 1-2
41 DescribeDelegationToken | 1.1: 0, 2.0: 0-1, 2.5: 0-2, 3.3: 0-3, 4.0: 1-3
42 DeleteGroups | 1.1: 0, 2.0: 0-1, 2.4: 0-2
43 ElectLeaders | 2.2: 0, 2.4: 0-2
44 IncrementalAlterConfigs | 2.3: 0, 2.4: 0-1
45 AlterPartitionReassignments | 2.4: 0, 4.1: 0-1
46 ListPartitionReassignments | 2.4: 0
47 OffsetDelete | 2.4: 0
48 DescribeClientQuotas | 2.6: 0, 2.8: 0-1
49 AlterClientQuotas | 2.6: 0, 2.8: 0-1
50 DescribeUserScramCredentials | 2.7: 0
51 AlterUserScramCredentials | 2.7: 0
55 DescribeQuorum | 4.0: 0-2
56 AlterPartition | 2.7: 0, 3.2: 0-1, 3.3: 0-2, 3.5: 0-3, 4.0: none
57 UpdateFeatures | 2.7: 0, 3.3: 0-1, 4.0: 0-2
58 Envelope | 3.4: 0, 4.0: none
60 DescribeCluster | 2.8: 0, 3.7: 0-1, 4.0: 0-2
61 DescribeProducers | 2.8: 0
64 UnregisterBroker | 4.0: 0
65 DescribeTransactions | 3.0: 0
66 ListTransactions | 3.0: 0, 3.8: 0-1, 4.1: 0-2
67 AllocateProducerIds | 3.0: 0, 4.0: none
68 ConsumerGroupHeartbeat | 3.7: 0, 4.0: 0-1
69 ConsumerGroupDescribe | 3.8: 0, 4.0: 0-1
74 ListConfigResources | 4.0: 0, 4.1: 0-1
75 DescribeTopicPartitions | 4.0: 0
76 ShareGroupHeartbeat | 4.1: 1
77 ShareGroupDescribe | 4.1: 1
78 ShareFetch | 4.1: 1, 4.2: 1-2
79 ShareAcknowledge | 4.1: 1, 4.2: 1-2
80 AddRaftVoter | 4.0: 0, 4.2: 0-1
81 RemoveRaftVoter | 4.0: 0
83 InitializeShareGroupState | 4.1: 0
84 ReadShareGroupState | 4.1: 0
85 WriteShareGroupState | 4.1: 0, 4.2: 0-1
86 DeleteShareGroupState | 4.1: 0
87 ReadShareGroupStateSummary | 4.1: 0, 4.2: 0-1
88 StreamsGroupHeartbeat | 4.2: 0
89 StreamsGroupDescribe | 4.2: 0
90 DescribeShareGroupOffsets | 4.1: 0, 4.2: 0-1
91 AlterShareGroupOffsets | 4.1: 0
92 DeleteShareGroupOffsets | 4.1: 0
"""
"""Key and name of each API | the first release with a range of versions: that range."""

NOT_SERVED: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "between brokers of a cluster, and there is one broker": (4, 5, 6, 7, 56, 58, 67, 80, 81),
        "delegation tokens": (38, 39, 40, 41),
        "share groups": (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92),
        "streams groups": (88, 89),
    }
)
"""Keys of `_OFFERED` that this broker has no response to, by what they are for."""

_OFFSET_VALUES: Final[Mapping[str, int]] = MappingProxyType({"0.8.2": 0, "0.9": 1, "2.1": 3, "4.1": 4})
"""The first release that writes an offset into `__consumer_offsets` with a version of OffsetCommitValue."""
_GROUP_VALUES: Final[Mapping[str, int]] = MappingProxyType({"0.8.2": 0, "0.10.1": 1, "2.1": 2, "2.3": 3})
"""The first release that writes a classic group there with a version of GroupMetadataValue."""

TRANSACTION_VERSION: Final = "transaction.version"
"""The feature that says how transactional producers and brokers deal with each other (KIP-890)."""
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
"""The feature with which min.insync.replicas is set for all brokers (KIP-966)."""

_PRODUCE: Final = 0
_METADATA_LEVELS: Final[Mapping[str, int]] = MappingProxyType({"4.0": 25, "4.1": 27, "4.2": 29, "4.3": 30})
"""The metadata.version of each release with KRaft."""
_OLDEST_METADATA_LEVEL: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature of the cluster (KIP-584): the levels that the broker knows, and the one that is in force; 0 is off."""

    name: str
    min_level: int
    max_level: int
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release: its number as users write it, and what a client can tell it by."""

    name: str
    offered: Mapping[int, VersionRange]
    features: tuple[Feature, ...]

    @property
    def rank(self) -> int:
        """Where it stands among all releases, the oldest first."""
        return RELEASE_NAMES.index(self.name)

    def since(self, name: str) -> bool:
        """Whether it is the release ``name`` or a later one."""
        return self.rank >= RELEASE_NAMES.index(name)

    @property
    def names_range_when_refusing(self) -> bool:
        """Whether the response to an unsupported version of ApiVersions has its range (KIP-511)."""
        return self.since("2.4")

    @property
    def answers_before_it_throttles(self) -> bool:
        """Whether it responds first and then mutes the connection of a client that it throttles (KIP-219)."""
        return self.since("2.0")

    @property
    def bounds_min_isr(self) -> bool:
        """Whether min.insync.replicas counts as at most the number of a partition's replicas (KAFKA-15583)."""
        return self.since("3.7")

    @property
    def has_kraft(self) -> bool:
        """Whether it keeps its metadata in a log of its own, and not in ZooKeeper."""
        return self.since("4.0")

    @property
    def has_consumer_groups(self) -> bool:
        """Whether its clusters take the consumer group protocol (KIP-848); 3.7 to 3.9 know it and have it off."""
        return any(feature.name == "group.version" and feature.level > 0 for feature in self.features)

    def served(self, api_key: int) -> VersionRange:
        """The versions of an API that it answers. 4.x offers Produce from 0, for librdkafka's sake (KAFKA-18659)."""
        versions = self.offered[api_key]
        return VersionRange(3, versions.last) if api_key == _PRODUCE and self.has_kraft else versions

    @property
    def message_format(self) -> str:
        """Its default log.message.format.version, which says how records are stored."""
        return "3.0" if self.since("3.0") else self.name

    @property
    def offset_value_version(self) -> int:
        """The version that it writes committed offsets in, but for those with an expiry time of their own."""
        return max(version for name, version in _OFFSET_VALUES.items() if self.since(name))

    @property
    def group_value_version(self) -> int:
        """The version that it writes classic groups in."""
        return max(version for name, version in _GROUP_VALUES.items() if self.since(name))


@functools.cache
def release(text: str) -> Release:
    """The release that a user means, such as ``2.8``, ``2.8.1`` or ``0.10.2.1``. Raises SettingError: there is none."""
    number = text.strip()
    name = next((name for name in RELEASE_NAMES if f"{number}.".startswith(f"{name}.")), None)
    parts = number.split(".")
    most_parts = 4 if parts[0] == "0" else 3
    if name is None or len(parts) > most_parts or not all(part.isascii() and part.isdigit() for part in parts):
        problem = (
            f"{text!r} is not a release of Apache Kafka that can be emulated. Use one of {', '.join(RELEASE_NAMES)}"
        )
        raise SettingError("as.version", f"{problem}, or a patch release such as 2.8.1 or 0.10.2.1")
    return Release(name=name, offered=MappingProxyType(_offered(name)), features=_features(name))


def api_names() -> dict[int, str]:
    """The name of every API that some release offers, by key."""
    apis = (line.partition(" | ")[0].split() for line in _lines())
    return {int(key): name for key, name in apis}


def _lines() -> list[str]:
    """`_OFFERED`, an API a line."""
    return _OFFERED.strip().replace("\n    ", " ").splitlines()


def _offered(name: str) -> dict[int, VersionRange]:
    rank = RELEASE_NAMES.index(name)
    found: dict[int, VersionRange] = {}
    for line in _lines():
        api, _, history = line.partition(" | ")
        for entry in history.split(", "):
            first, _, versions = entry.partition(": ")
            if RELEASE_NAMES.index(first) <= rank:
                found[int(api.split()[0])] = VersionRange.parse(versions)
    return {key: versions for key, versions in found.items() if versions.first in versions}


def _features(name: str) -> tuple[Feature, ...]:
    """The features of 4.x. share.version and streams.version are absent, because their APIs are not served.

    kraft.version stays at 0, a quorum with fixed voters, because AddRaftVoter and RemoveRaftVoter are not served.
    """
    level = _METADATA_LEVELS.get(name)
    if level is None:
        return ()
    replicas_level = 0 if name == "4.0" else 1
    return (
        Feature(name=ELIGIBLE_LEADER_REPLICAS_VERSION, min_level=0, max_level=1, level=replicas_level),
        Feature(name="group.version", min_level=0, max_level=1, level=1),
        Feature(name="kraft.version", min_level=0, max_level=1, level=0),
        Feature(name="metadata.version", min_level=_OLDEST_METADATA_LEVEL, max_level=level, level=level),
        Feature(name=TRANSACTION_VERSION, min_level=0, max_level=2, level=2),
    )
