"""Members of groups that are `ConsumerConnector`s, with the interface of those of `tests.support.clients.agent`."""

from collections.abc import Sequence
from typing import Protocol, Self

from spark_kafka_native._client.groups.membership import MemberIdentity
from tests.support.clients.agent import ForeignRecord, TopicPartition
from tests.support.clients.consuming import Consuming, with_protocol
from tests.support.waiting import eventually

QUICK_MEMBER = {
    "auto.offset.reset": "earliest",
    "fetch.max.wait.ms": 100,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 300,
    "metadata.max.age.ms": 1000,
}
"""As the agents' members have it. Offsets are committed automatically: when partitions move, and by `leave`."""


class GroupMember(Protocol):
    """A member of a group, of whatever client."""

    name: str
    records: list[ForeignRecord]
    assignment: list[TopicPartition]

    def look(self) -> Self:
        """Learn what it has been assigned and has read by now."""
        ...

    def commit(self) -> None:
        """Commit what it has read."""
        ...

    def leave(self) -> None:
        """Leave the group."""
        ...


class Joins(Protocol):
    """What members join groups with: an agent, or `OurMembers`."""

    def join(
        self,
        servers: str,
        group: str,
        topics: Sequence[str],
        name: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        assignors: Sequence[str] = (),
    ) -> GroupMember:
        """A new member, without waiting for its assignment. `name` is its client id."""
        ...


class OurMember:
    """A `GroupMember` whose stream is read by a thread of its own."""

    def __init__(self, name: str, consuming: Consuming) -> None:
        self.name = name
        self._consuming = consuming
        self.records: list[ForeignRecord] = []
        self.assignment: list[TopicPartition] = []

    @property
    def identity(self) -> MemberIdentity:
        """Its member id and generation, or member epoch."""
        member = self._consuming.consumer._member
        assert member is not None
        return member._membership.identity

    def look(self) -> Self:
        """As `GroupMember.look`. Raises what its stream raised."""
        if self._consuming.errors:
            raise self._consuming.errors[0]
        self.records += [
            ForeignRecord(record.value.decode(), partition=record.partition, offset=record.offset, topic=record.topic)
            for record in self._consuming.records[len(self.records) :]
        ]
        self.assignment = self._consuming.partitions
        return self

    def commit(self) -> None:
        """As `GroupMember.commit`, when it waits for a record."""
        self._wait_for_processing()
        self._consuming.consumer.commit_offsets()

    def leave(self) -> None:
        """As `GroupMember.leave`, when it waits for a record. Commits what it has read."""
        self._wait_for_processing()
        self.close()

    def close(self) -> None:
        """Leave the group at once."""
        self._consuming.close()
        self.look()
        self.assignment = []

    def _wait_for_processing(self) -> None:
        """A record that is in `records` is being processed until its thread requests the next one."""
        eventually(
            lambda: [stream for stream in self._consuming.streams if stream._partitions.in_process is not None], []
        )


class OurMembers:
    """Opens `OurMember`s. `close` ends those that are left."""

    def __init__(self) -> None:
        self._members: list[OurMember] = []

    def join(
        self,
        servers: str,
        group: str,
        topics: Sequence[str],
        name: str,
        *,
        protocol: str = "classic",
        instance: str | None = None,
        assignors: Sequence[str] = (),
    ) -> OurMember:
        """As `Joins.join`."""
        options: dict[str, object] = {
            **QUICK_MEMBER,
            "bootstrap.servers": servers,
            "client.id": name,
            "group.id": group,
        }
        if instance is not None:
            options["group.instance.id"] = instance
        if assignors:
            options["partition.assignment.strategy"] = ",".join(assignors)
        member = OurMember(name, Consuming(with_protocol(options, protocol), dict.fromkeys(topics, 1)))
        self._members.append(member)
        return member

    def close(self) -> None:
        """Close all members; those that have left are closed already."""
        for member in self._members:
            member._consuming.close()
