"""Consumer groups (KIP-848) change hands: ours are coordinated by Apache Kafka and Kafka's by ours, at their epochs."""

import re
import shutil
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from dirty_equals import IsOneOf

from broker_embedded._coordinator.log import partition_for
from broker_embedded._groups.consumer.records import KEY_VERSIONS, read_entry, to_record
from broker_embedded._records.coordinator_record import key_version
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member
from tests.support.report import skip_if
from tests.support.requests.classic_group import RawMember, wait_for_coordinator
from tests.support.requests.consumer_group import Owned, RawConsumer, describe, settle
from tests.support.requests.raw_client import RawClient
from tests.support.servers.apache_kafka import ApacheKafka, apache_kafka_unavailable, dump_log
from tests.support.servers.both_brokers import kafka_of_its_own, take_over
from tests.support.servers.brokers import Server, stored_records
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

TOPIC = "shared"
TOPIC_PARTITIONS = 6
OFFSETS_PARTITIONS = 3
GROUPS = ("stable", "giving", "away", "regex", "mixed", "empty")
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.max.session.timeout.ms": "600000",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A broker's descriptions of groups, and the responses to members of some: id, epoch, partitions."""

    groups: dict[str, DescribedGroup]
    members: dict[str, list[tuple[str, int, Owned]]]


def fill(broker: Server) -> dict[str, list[tuple[str, int, Owned]]]:
    """Groups in every state."""
    with ExitStack() as connections:

        def join(group: str, *, topics: tuple[str, ...] = (TOPIC,), **fields: object) -> RawConsumer:
            made = connections.enter_context(RawConsumer(broker.bootstrap_servers, group, *topics, **fields))
            made.fields["rebalance_timeout_ms"] = 600_000
            made.join()
            return made

        stable = [join("stable", instance_id="i", rack_id="r", server_assignor="range"), join("stable")]
        settle(*stable)
        giving = [join("giving")]
        settle(*giving)
        giving[0].holds_on = True
        giving.append(join("giving"))
        giving[0].beat()
        away = join("away", instance_id="a")
        settle(away)
        away.leave(-2)
        regex = join("regex", topics=(), subscribed_topic_regex=f"{TOPIC}|nothing")
        eventually(lambda: regex.beat().assignment, ~IsOneOf(None))
        settle(regex)
        mixed = join("mixed")
        settle(mixed)
        old = connections.enter_context(RawMember(broker.bootstrap_servers, "mixed", topics=(TOPIC,)))
        old.session_timeout_ms = old.rebalance_timeout_ms = 600_000
        assert old.join().error_code == ErrorCode.NONE
        empty = join("empty")
        assert empty.leave() is ErrorCode.NONE
        return {
            name: [(member.member_id, member.epoch, member.assigned) for member in members]
            for name, members in {"stable": stable, "giving": giving, "regex": [regex], "mixed": [mixed]}.items()
        }


def look(broker: Server) -> dict[str, DescribedGroup]:
    with RawClient(broker.bootstrap_servers) as client:
        for group in GROUPS:
            wait_for_coordinator(client, group)
        return {group: in_order(describe(client, group)) for group in GROUPS}


def in_order(group: DescribedGroup) -> DescribedGroup:
    """The group with its members and their partitions in order, so that descriptions can be compared."""

    def sort(assignment: Assignment) -> Assignment:
        return Assignment(
            topic_partitions=tuple(
                replace(topic, partitions=tuple(sorted(topic.partitions))) for topic in assignment.topic_partitions
            )
        )

    def tidy(member: Member) -> Member:
        return replace(member, assignment=sort(member.assignment), target_assignment=sort(member.target_assignment))

    return replace(group, members=tuple(sorted(map(tidy, group.members), key=lambda member: member.member_id)))


def with_topic_of(kafka: ApacheKafka, directory: Path) -> Path:
    """A data directory for our broker that has Kafka's topic, with its id."""
    for index in range(TOPIC_PARTITIONS):
        shutil.copytree(kafka.log_directory / f"{TOPIC}-{index}", directory / f"{TOPIC}-{index}")
    return directory


def assert_continues(broker: Server, members: dict[str, list[tuple[str, int, Owned]]], epochs: dict[str, int]) -> None:
    """Members are at their epochs, no partition moves, and unfinished rebalances end."""
    with ExitStack() as connections:

        def back(group: str) -> list[RawConsumer]:
            made = []
            for member_id, epoch, assigned in members[group]:
                member = connections.enter_context(RawConsumer(broker.bootstrap_servers, group))
                member.member_id, member.epoch = member_id, epoch
                member.owned = member.assigned = assigned
                made.append(member)
            return made

        for name in ("stable", "regex"):
            for member, (_, epoch, owned) in zip(back(name), members[name], strict=True):
                assert member.beat().member_epoch == epoch
                assert member.owned == owned
            assert describe(member.client, name).group_epoch == epochs[name], "its topics are what they were"
        first, second = back("giving")
        settle(first, second)
        assert len(first.owned) == len(second.owned) == 3
        away = connections.enter_context(RawConsumer(broker.bootstrap_servers, "away", TOPIC, instance_id="a"))
        away.join()
        assert len(away.owned) == TOPIC_PARTITIONS
        empty = connections.enter_context(RawConsumer(broker.bootstrap_servers, "empty", TOPIC))
        empty.join()
        assert empty.epoch == epochs["empty"] + 1


def epochs_of(groups: dict[str, DescribedGroup]) -> dict[str, int]:
    return {name: group.group_epoch for name, group in groups.items()}


kafka = kafka_of_its_own(settings=SETTINGS)


@pytest.fixture(scope="module")
def theirs(kafka: ApacheKafka) -> Seen:
    """Groups on Apache Kafka, which is stopped then."""
    kafka.create_topic(TOPIC, TOPIC_PARTITIONS)
    members = fill(kafka)
    groups = look(kafka)
    kafka.stop()
    return Seen(groups=groups, members=members)


def test_groups_of_kafka_are_coordinated_by_ours(kafka: ApacheKafka, theirs: Seen, tmp_path: Path) -> None:
    take_over(kafka.log_directory, with_topic_of(kafka, tmp_path), {"__consumer_offsets": OFFSETS_PARTITIONS})
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        assert look(broker) == theirs.groups
        assert_continues(broker, theirs.members, epochs_of(theirs.groups))


def test_records_of_kafka_are_encoded_as_ours(kafka: ApacheKafka, theirs: Seen) -> None:
    assert theirs.groups
    kinds: Counter[int] = Counter()
    for record in stored_records(kafka, "__consumer_offsets", OFFSETS_PARTITIONS):
        kind = key_version(record)
        if kind in KEY_VERSIONS:
            kinds[kind] += 1
            assert to_record(read_entry(record)) == record
    assert {kind: count > 0 for kind, count in kinds.items()} == dict.fromkeys((3, 5, 6, 7, 8, 16), True)


def test_groups_of_ours_are_coordinated_by_kafka(kafka: ApacheKafka, theirs: Seen, tmp_path: Path) -> None:
    assert theirs.groups  # the topics are there
    with BrokerProcess(with_topic_of(kafka, tmp_path), settings=SETTINGS) as broker:
        members = fill(broker)
        groups = look(broker)
    take_over(tmp_path, kafka.log_directory, {"__consumer_offsets": OFFSETS_PARTITIONS})
    kafka.restart()
    assert look(kafka) == groups
    assert_continues(kafka, members, epochs_of(groups))
    kafka.stop()


def test_kafkas_tool_reads_our_groups(tmp_path: Path) -> None:
    skip_if(apache_kafka_unavailable())
    with BrokerProcess(tmp_path, settings=SETTINGS) as broker:
        broker.create_topic(TOPIC, TOPIC_PARTITIONS)
        members = fill(broker)

    def dump(group: str) -> str:
        index = partition_for(group, OFFSETS_PARTITIONS)
        (log,) = (tmp_path / f"__consumer_offsets-{index}").glob("*.log")
        return dump_log([log], "--offsets-decoder")

    stable = dump("stable")
    assert "isvalid: true" in stable
    assert "isvalid: false" not in stable
    static_id, epoch, _ = members["stable"][0]
    said = rf'"type":"5","data":\{{"groupId":"stable","memberId":"{static_id}"\}}.*"instanceId":"i","rackId":"r"'
    assert re.search(rf'{said}.*"subscribedTopicNames":\["{TOPIC}"\].*"serverAssignor":"range"', stable)
    assert re.search(
        rf'"type":"8","data":\{{"groupId":"stable","memberId":"{static_id}".*"memberEpoch":{epoch}', stable
    )
    for kind in ("3", "6", "7"):
        assert f'"type":"{kind}","data":{{"groupId":"stable"' in stable
    assert re.search(rf'"type":"16".*"regularExpression":"{TOPIC}\|nothing".*"topics":\["{TOPIC}"\]', dump("regex"))
    assert re.search(r'"classicMemberMetadata":\{"sessionTimeoutMs":600000,', dump("mixed"))
    assert re.search(r'"type":"5","data":\{"groupId":"empty",.*payload: <DELETE>', dump("empty"))
