"""Scenarios for several sets of clients."""

import itertools
import time
from collections import Counter
from collections.abc import Sequence

from dirty_equals import AnyThing, IsInt

from spark_kafka_native._protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from spark_kafka_native.clients import CommitFailed
from tests.support.clients.agent import Agent, AgentError, ForeignRecord
from tests.support.clients.interface import Refused
from tests.support.clients.our_members import GroupMember, Joins, OurMembers
from tests.support.requests.raw_client import RawClient
from tests.support.servers.brokers import AnyBroker, RestartableBroker, stored_batches
from tests.support.waiting import eventually

PARTITIONS = 4
REBALANCE_S = 30.0
START_MS = int(time.time() * 1000) - 3_600_000
"""A time for the first record: not now, and not so long ago that brokers would delete the record."""


def wait_until_shared(members: Sequence[GroupMember], topic: str, partitions: int = PARTITIONS) -> None:
    """Wait until every partition has one owner among `members`, and every member owns a partition."""
    eventually(lambda: shared(members), all_shared(topic, partitions), within_s=REBALANCE_S)


def shared(members: Sequence[GroupMember]) -> tuple[list[tuple[str, int]], int]:
    """The partitions that `members` own, sorted, and the number of members that own none."""
    assignments = [member.look().assignment for member in members]
    return sorted(item for assignment in assignments for item in assignment), assignments.count([])


def all_shared(topic: str, partitions: int = PARTITIONS) -> tuple[list[tuple[str, int]], int]:
    """What `shared` returns when every partition has one owner and every member owns a partition."""
    return [(topic, partition) for partition in range(partitions)], 0


def produce_values(agent: Agent, servers: str, topic: str, values: Sequence[int]) -> None:
    """Produce one record per value, over all partitions in turn."""
    records = [ForeignRecord(str(value), partition=value % PARTITIONS) for value in values]
    agent.produce(servers, topic, records)


def values(members: Sequence[GroupMember]) -> list[int]:
    """What they have read by now."""
    return sorted(int(record.value or "") for member in members for record in member.look().records)


def follow_the_members(agent: Agent, servers: str, topic: str, protocol: str) -> None:
    """Two members share a topic, one leaves, its partitions move, commits hold, and a third resumes from them."""
    group = f"group-of-{topic}"
    first = agent.join(servers, group, [topic], f"{topic}-first", protocol=protocol)
    wait_until_shared([first], topic)
    second = agent.join(servers, group, [topic], f"{topic}-second", protocol=protocol)
    both = [first, second]
    wait_until_shared(both, topic)

    produce_values(agent, servers, topic, range(200))
    eventually(lambda: len(values(both)), IsInt(ge=200), within_s=REBALANCE_S)
    assert values(both) == list(range(200))
    assert all({record.topic for record in member.records} == {topic} for member in both)
    assert {record.partition for record in first.records}.isdisjoint(record.partition for record in second.records)

    first.commit()
    second.commit()
    second.leave()
    wait_until_shared([first], topic)
    assert agent.committed(servers, group, topic, range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), 50)
    produce_values(agent, servers, topic, range(200, 300))
    eventually(lambda: len(values(both)), IsInt(ge=300), within_s=REBALANCE_S)
    assert values(both) == list(range(300))
    first.leave()

    # What was read but not committed is read again; what was committed is not.
    third = agent.join(servers, group, [topic], f"{topic}-third", protocol=protocol)
    eventually(lambda: len(values([third])), IsInt(ge=100), within_s=REBALANCE_S)
    assert values([third]) == list(range(200, 300))
    third.commit()
    third.leave()
    assert agent.committed(servers, group, topic, range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), 75)


def members_of_ours_join_and_leave(
    ours: OurMembers,
    agent: Agent,
    servers: str,
    topic: str,
    *,
    protocol: str = "classic",
    our_assignors: Sequence[str] = (),
    their_assignors: Sequence[str] = (),
) -> None:
    """A member of ours is alone, `agent`'s joins, ours leaves, another of ours joins, `agent`'s leaves.

    The member that is alone leads the next rebalance. Ours commits as its partitions move, `agent`'s when it has read.
    Only what `agent`'s member has read and not committed is read again.
    """
    group = f"group-of-{topic}"
    sent = 0

    def produce() -> None:
        nonlocal sent
        produce_values(agent, servers, topic, range(sent, sent + 80))
        sent += 80

    def read_by(members: Sequence[GroupMember]) -> None:
        eventually(lambda: sorted(set(values(members))), list(range(sent)), within_s=REBALANCE_S)

    first = ours.join(servers, group, [topic], f"{topic}-first", protocol=protocol, assignors=our_assignors)
    wait_until_shared([first], topic)
    produce()
    read_by([first])

    other = agent.join(servers, group, [topic], f"{topic}-other", protocol=protocol, assignors=their_assignors)
    produce()  # during the rebalance
    wait_until_shared([first, other], topic)
    read_by([first, other])
    other.commit()
    produce()
    read_by([first, other])
    other.commit()
    first.leave()
    wait_until_shared([other], topic)
    assert agent.committed(servers, group, topic, range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), sent // 4)
    produce()
    read_by([first, other])
    other.commit()
    ours_read = len(first.records)

    second = ours.join(servers, group, [topic], f"{topic}-second", protocol=protocol, assignors=our_assignors)
    produce()  # during the rebalance
    wait_until_shared([second, other], topic)
    read_by([first, second, other])
    other.commit()
    produce()
    read_by([first, second, other])
    other.commit()
    other.leave()
    wait_until_shared([second], topic)
    produce()
    read_by([first, second, other])
    second.leave()
    assert agent.committed(servers, group, topic, range(PARTITIONS)) == dict.fromkeys(range(PARTITIONS), sent // 4)

    assert first.records
    assert second.records
    assert len(first.records) == ours_read
    in_rebalances = {*range(80, 160), *range(320, 400)}
    every = Counter(values([first, second, other]))
    assert {value for value, count in every.items() if count > 1} <= in_rebalances


def members_change_over(joining: Sequence[Joins], agent: Agent, servers: str, topic: str) -> None:
    """A group goes from the classic protocol to the consumer protocol and back, member by member, while it reads.

    Members are of each of `joining` in turn.
    """
    group = f"group-of-{topic}"

    def listed() -> ListedGroup:
        """The group, without a state while the coordinator does not know it."""
        with RawClient(servers) as admin:
            groups = {found.group_id: found for found in admin.ask(ListGroupsRequest(), 5).groups}
        return groups.get(group, ListedGroup(group_id=group))

    def sharing() -> tuple[object, str]:
        """Who owns what, and the group's state: partitions may be assigned before all members have confirmed it.

        A member that speaks the classic protocol and is still in an older generation as the last one of the new
        protocol leaves gets ILLEGAL_GENERATION, from Apache Kafka as well, and franz-go passes it to its user.
        """
        return shared(members), listed().group_state

    settled = (all_shared(topic), "Stable")

    members: list[GroupMember] = []
    names = (f"{topic}-{number}" for number in range(6))
    clients = itertools.cycle(joining)
    for _ in range(2):
        members.append(next(clients).join(servers, group, [topic], next(names)))
        eventually(sharing, settled, within_s=REBALANCE_S)
    assert listed().group_type.lower() == "classic"
    sent = 0
    for protocol in ("consumer", "classic"):
        for left in (1, 0):
            members.append(next(clients).join(servers, group, [topic], next(names), protocol=protocol))
            eventually(sharing, settled, within_s=REBALANCE_S)
            assert listed().group_type.lower() == "consumer"
            gone = members.pop(0)
            gone.commit()
            gone.leave()
            eventually(sharing, settled, within_s=REBALANCE_S)
            assert listed().group_type.lower() == ("consumer" if left or protocol == "consumer" else "classic")
            produce_values(agent, servers, topic, range(sent, sent + 40))
            sent += 40
            eventually(lambda: values(members)[-40:], [*range(sent - 40, sent)], within_s=REBALANCE_S)  # called at once
            for member in members:
                member.commit()
    assert agent.committed(servers, group, topic, range(PARTITIONS)) == dict.fromkeys(
        range(PARTITIONS), sent // PARTITIONS
    )
    for member in members:
        member.leave()


def members_resume_after_a_restart(
    joining: Sequence[Joins], agent: Agent, server: RestartableBroker, topic: str, protocol: str
) -> None:
    """Members of `joining` continue when the broker is back, and nothing is lost."""
    servers = server.bootstrap_servers
    group = f"group-of-{topic}"
    members = [
        joins.join(servers, group, [topic], f"{topic}-{number}", protocol=protocol)
        for number, joins in enumerate(joining)
    ]
    wait_until_shared(members, topic)
    produce_values(agent, servers, topic, range(40))
    eventually(lambda: len(values(members)), 40, within_s=REBALANCE_S)
    for member in members:
        member.commit()
    server.restart()

    found = eventually(
        lambda: agent.committed(servers, group, topic, range(PARTITIONS)),
        AnyThing,
        within_s=REBALANCE_S,
        retrying=(Refused, AgentError),  # while the coordinator reads its records
    )
    assert found == dict.fromkeys(range(PARTITIONS), 10)
    produce_values(agent, servers, topic, range(40, 80))
    # Nothing is lost. The Java client may join again, because it forgets the metadata of a cluster that it cannot
    # reach; then it reads again what it had not committed.
    eventually(lambda: set(values(members)), set(range(80)), within_s=60)
    wait_until_shared(members, topic)

    def commit_all() -> dict[int, int | None]:
        for member in members:
            member.commit()
        return agent.committed(servers, group, topic, range(PARTITIONS))

    eventually(
        commit_all,
        dict.fromkeys(range(PARTITIONS), 20),
        within_s=REBALANCE_S,
        retrying=(Refused, AgentError, CommitFailed),  # of a member that has joined again
    )
    for member in members:
        member.leave()


def records_come_back(
    agent: Agent, readers: Sequence[Agent], server: AnyBroker, topic: str, codec: str, *, headers: bool
) -> None:
    """What `agent` sends to both partitions of `topic`, `readers` read as it was."""
    servers = server.bootstrap_servers
    some = (("one", "1"), ("one", ""), ("clé", "valeur")) if headers else ()
    records = [
        ForeignRecord(f"value {number}, " * 20, f"key-{number}", number % 2, some, START_MS + number)
        for number in range(300)
    ]
    offsets = agent.produce(servers, topic, records, codec)
    assert offsets == [number // 2 for number in range(300)]
    expected = [
        record._replace(offset=offset, topic=topic)
        for partition in range(2)
        for record, offset in zip(records, offsets, strict=True)
        if record.partition == partition
    ]
    for reader in readers:
        assert reader.consume(servers, topic, {0: 150, 1: 150}) == expected
    for partition in range(2):
        assert {header.compression.label for header in stored_batches(server, topic, partition)} == {codec}
