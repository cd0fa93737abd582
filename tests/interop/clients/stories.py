"""Scenarios for several sets of clients."""

import time
from collections.abc import Sequence

from dirty_equals import IsInt

from tests.support.clients.agent import Agent, ForeignRecord, Member
from tests.support.servers.brokers import AnyBroker, stored_batches
from tests.support.waiting import eventually

PARTITIONS = 4
REBALANCE_S = 30.0
START_MS = int(time.time() * 1000) - 3_600_000
"""A time for the first record: not now, and not so long ago that brokers would delete the record."""


def wait_until_shared(members: Sequence[Member], topic: str, partitions: int = PARTITIONS) -> None:
    """Wait until every partition has one owner among `members`, and every member owns a partition."""
    eventually(lambda: shared(members), all_shared(topic, partitions), within_s=REBALANCE_S)


def shared(members: Sequence[Member]) -> tuple[list[tuple[str, int]], int]:
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


def values(members: Sequence[Member]) -> list[int]:
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
