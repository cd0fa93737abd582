"""Scenarios of transactions for several clients, on several brokers."""

import pytest

from tests.support.clients.agent import Agent, AgentError, ForeignRecord
from tests.support.clients.interface import Refused
from tests.support.requests.raw_client import RawClient
from tests.support.requests.transaction_views import settle, values

PARTITIONS = 2


def records_of(name: str, count: int = 20) -> list[ForeignRecord]:
    return [ForeignRecord(f"{name}-{number}", partition=number % PARTITIONS) for number in range(count)]


def visible(servers: str, topic: str, *, committed: bool = True) -> list[str]:
    """What a committed read shows, or one of everything, once nothing is open."""
    with RawClient(servers) as client:
        for partition in range(PARTITIONS):
            settle(client, topic, partition)
        found = (values(client, topic, partition, committed=committed) for partition in range(PARTITIONS))
        return sorted(value for each in found for value in each)


def write_and_read(agent: Agent, readers: list[Agent], servers: str, topic: str) -> None:
    """Transactions of every outcome; the readers see what was committed, or all of it."""
    transactions = [(records_of(f"{number}"), number % 3 != 1) for number in range(7)]
    agent.transact(servers, f"id-of-{topic}", topic, transactions)
    shown = sorted(record.value or "" for records, commit in transactions for record in records if commit)
    written = sorted(record.value or "" for records, _ in transactions for record in records)
    assert visible(servers, topic) == shown
    for reader in readers:
        for isolation, expected in (("read_committed", shown), ("read_uncommitted", written)):
            counts = dict.fromkeys(range(PARTITIONS), len(expected) // PARTITIONS)
            found = reader.consume(servers, topic, counts, isolation)
            assert sorted(record.value or "" for record in found) == expected


def fence_and_check(agent: Agent, servers: str, topic: str) -> None:
    """A fenced producer has written; its commit is refused, and its records are not visible."""
    with pytest.raises((Refused, AgentError)):
        agent.ask("fence", servers=servers, transactional_id=f"id-of-{topic}", topic=topic)
    assert visible(servers, topic) == []
    assert visible(servers, topic, committed=False) == ["fenced"]


def copy_and_check(agent: Agent, servers: str, source: str, target: str) -> None:
    """The records that a group read are in the target once, and its offsets are after them."""
    name, group = f"id-of-{target}", f"group-of-{target}"
    transactions = [(records_of(value), value in "bd") for value in "abcd"]
    agent.transact(servers, f"id-of-{source}", source, transactions)
    copied = visible(servers, source)
    assert len(copied) == 40
    agent.copy(servers, name, group, source, target, 40)
    assert visible(servers, target) == sorted(value.upper() for value in copied)
    ends = {}
    for record in agent.consume(servers, source, dict.fromkeys(range(PARTITIONS), 20), "read_committed"):
        ends[record.partition] = record.offset + 1
    committed = agent.committed(servers, group, source, range(PARTITIONS))
    # After the last record, or after the marker that follows it.
    assert all((committed[partition] or 0) - end in {0, 1} for partition, end in ends.items()), (committed, ends)
    more = records_of("e")
    agent.transact(servers, f"id-of-{source}", source, [(more, True)])
    agent.copy(servers, name, group, source, target, len(more))
    everything = [*copied, *(record.value or "" for record in more)]
    assert visible(servers, target) == sorted(value.upper() for value in everything)
