"""``__consumer_offsets`` changes hands: groups of ours are coordinated by Apache Kafka, and Kafka's by ours."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from broker_embedded._coordinator.log import partition_for
from broker_embedded._groups.classic.group import ClassicConfig
from broker_embedded._groups.classic.records import CLASSIC_GROUP_RECORDS
from broker_embedded._groups.classic.replay import replay_group
from broker_embedded._groups.records import offset_record, read_offset_record
from broker_embedded._records.coordinator_record import key_version
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from tests.support.report import skip_if
from tests.support.requests.classic_group import RawMember, stabilize, wait_for_coordinator
from tests.support.requests.committed_offsets import committed_offset
from tests.support.requests.raw_client import RawClient
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable, dump_log
from tests.support.servers.both_brokers import kafka_of_its_own, take_over
from tests.support.servers.brokers import AnyBroker, stored_records

pytestmark = pytest.mark.interop

TOPIC = "read"
GROUPS = ("stable", "empty", "simple", "connect", "gone")
PARTITIONS = 3
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": str(PARTITIONS)}
OUTSIDE: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a broker says about the groups, and who is in the stable one."""

    groups: dict[str, DescribedGroup]
    offsets: dict[str, int | ErrorCode]
    members: dict[str, tuple[str, int]]


def member(broker: AnyBroker, group: str, **others: Any) -> RawMember:
    made = RawMember(broker.bootstrap_servers, group, topics=(TOPIC,), **others)
    made.session_timeout_ms = made.rebalance_timeout_ms = 1_800_000
    return made


def fill(broker: AnyBroker) -> dict[str, tuple[str, int]]:
    """Groups of every kind; the ids and generations of the members of the stable one, by instance id."""
    broker.create_topic(TOPIC)
    with member(broker, "stable", instance_id="i") as static, member(broker, "stable", instance_id="j") as other:
        stabilize(static, other)
        assert static.commit(TOPIC, 11) is ErrorCode.NONE
        members = {"i": (static.member_id, static.generation), "j": (other.member_id, other.generation)}
    with member(broker, "empty") as leaves:
        stabilize(leaves)
        assert leaves.commit(TOPIC, 12) is ErrorCode.NONE
        leaves.leave()
    with member(broker, "simple") as outside:
        assert outside.commit(TOPIC, 13, **OUTSIDE) is ErrorCode.NONE
    with member(broker, "connect", instance_id="w") as worker:
        worker.protocol_type, worker.protocols = "connect", {"compatible": b"http://worker"}
        stabilize(worker)
    return members


def look(broker: AnyBroker) -> Seen:
    with RawClient(broker.bootstrap_servers) as client:
        for group in GROUPS:
            wait_for_coordinator(client, group)
        found = client.ask(DescribeGroupsRequest(groups=GROUPS), 5).groups
        return Seen(
            groups={group.group_id: group for group in found},
            offsets={group: committed_offset(client, group, TOPIC) for group in GROUPS},
            members={},
        )


def by_member(group: DescribedGroup) -> dict[str, object]:
    return {found.member_id: found for found in group.members}


def assert_same(ours: Seen, theirs: Seen) -> None:
    assert ours.offsets == theirs.offsets == {"stable": 11, "empty": 12, "simple": 13, "connect": -1, "gone": -1}
    for name in GROUPS:
        our_group, their_group = ours.groups[name], theirs.groups[name]
        assert by_member(our_group) == by_member(their_group)
        for what in ("group_state", "protocol_type", "protocol_data", "error_code"):
            assert getattr(our_group, what) == getattr(their_group, what), (name, what)
    assert {name: group.group_state for name, group in ours.groups.items()} == {
        "stable": "Stable",
        "empty": "Empty",
        "simple": "Empty",
        "connect": "Stable",
        "gone": "Dead",
    }


def assert_continues(broker: AnyBroker, members: dict[str, tuple[str, int]]) -> None:
    """The members of the stable group are members still, and a new one makes a new generation."""
    with member(broker, "stable", instance_id="i") as static, member(broker, "stable", instance_id="j") as other:
        for back in (static, other):
            assert back.instance_id is not None
            back.member_id, back.generation = members[back.instance_id]
            assert back.heartbeat() is ErrorCode.NONE
        assert static.commit(TOPIC, 21) is ErrorCode.NONE
        assert static.leave() is ErrorCode.NONE
        other.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
        assert other.join().generation_id == other.generation == members["j"][1] + 1


kafka = kafka_of_its_own(settings=SETTINGS)


@pytest.fixture(scope="module")
def theirs(kafka: ApacheKafka) -> Seen:
    """Groups on Apache Kafka, which is stopped then."""
    members = fill(kafka)
    seen = look(kafka)
    kafka.stop()
    return Seen(groups=seen.groups, offsets=seen.offsets, members=members)


def test_groups_of_kafka_are_coordinated_by_ours(kafka: ApacheKafka, theirs: Seen, tmp_path: Path) -> None:
    take_over(kafka.log_directory, tmp_path, {TOPIC: 1, "__consumer_offsets": PARTITIONS})
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        assert_same(look(broker), theirs)
        assert_continues(broker, theirs.members)


def test_records_of_kafka_are_encoded_as_ours(kafka: ApacheKafka, theirs: Seen) -> None:
    assert theirs.groups
    kinds: Counter[int] = Counter()
    for record in stored_records(kafka, "__consumer_offsets", PARTITIONS):
        kinds[key_version(record)] += 1
        if key_version(record) == CLASSIC_GROUP_RECORDS.key_version and record.value is not None:
            _, group = replay_group(record, ClassicConfig())
            assert group is not None
            assert group.record() == record
        offset = read_offset_record(record)
        if offset is not None:
            assert offset_record(*offset) == record
    assert kinds[CLASSIC_GROUP_RECORDS.key_version] >= 5
    assert kinds[1] == 3


def test_groups_of_ours_are_coordinated_by_kafka(kafka: ApacheKafka, theirs: Seen, tmp_path: Path) -> None:
    assert theirs.groups  # the topics are there
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        members = fill(broker)
        ours = look(broker)
    take_over(tmp_path, kafka.log_directory, {"__consumer_offsets": PARTITIONS})
    kafka.restart()
    assert_same(ours, look(kafka))
    assert_continues(kafka, members)
    kafka.stop()


def test_kafkas_tool_reads_our_groups(tmp_path: Path) -> None:
    skip_if(apache_kafka_unavailable())
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        members = fill(broker)

    def dump(group: str) -> str:
        (log,) = (tmp_path / f"__consumer_offsets-{partition_for(group, PARTITIONS)}").glob("*.log")
        return dump_log([log], "--offsets-decoder")

    stable = dump("stable")
    assert "isvalid: true" in stable
    assert "isvalid: false" not in stable
    assert re.search(r'"type":"2","data":\{"group":"stable"\}.*"protocolType":"consumer","generation":\d+', stable)
    for instance, (member_id, _) in members.items():
        assert f'"memberId":"{member_id}","groupInstanceId":"{instance}","clientId":"raw"' in stable
    assert re.search(rf'"type":"1","data":\{{"group":"stable","topic":"{TOPIC}","partition":0\}}.*"offset":11', stable)
    assert re.search(r'"group":"empty"\}.*"protocol":null,"leader":null,.*"members":\[\]', dump("empty"))
    assert '"protocol":"compatible"' in dump("connect")
