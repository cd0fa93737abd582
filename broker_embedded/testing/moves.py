"""Leaders and coordinators that seem to have moved, on a broker that is alone: clients have to find them again.

A moved partition has a new leader epoch, which is real: Metadata tells it, and a fetch with the old one is fenced.
Until a client has asked for the metadata of the topic again, it is answered NOT_LEADER_OR_FOLLOWER by the APIs that
only leaders answer. A moved group is answered NOT_COORDINATOR until the client has looked for its coordinator; the
members, generation and offsets of the group stay as they are, as if the new coordinator had loaded them. Clients are
told apart by their client id.
"""

from dataclasses import dataclass, field
from typing import Final

from broker_embedded.testing.planning import Plan
from broker_embedded.testing.scopes import Scope
from spark_kafka_native.protocol.errors import ErrorCode

ASKED_OF_LEADERS: Final = frozenset(
    {"Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords", "DescribeProducers"}
    | {"WriteTxnMarkers"}
)
ASKED_OF_COORDINATORS: Final = frozenset(
    {
        "OffsetCommit",
        "OffsetFetch",
        "OffsetDelete",
        "TxnOffsetCommit",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
    }
    | {"DescribeGroups", "DeleteGroups", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe"}
)


@dataclass(slots=True, kw_only=True)
class Move:
    """One move. ``told`` are the client ids that know of it."""

    scope: Scope
    asked_there: frozenset[str]
    found_by: str
    code: ErrorCode
    told: set[str] = field(default_factory=set)

    def apply(self, plan: Plan, api: str, client_id: str) -> None:
        """Refuse what is moved to a client that has not been told; a client that asks where it is has been."""
        if api == self.found_by and plan.concerns(self.scope):
            self.told.add(client_id)
        elif api in self.asked_there and client_id not in self.told:
            plan.refuse(self.scope, self.code)


class Moves:
    """All moves that some client may not have heard of. The same partition or group moves from its last place."""

    def __init__(self) -> None:
        self._moves: dict[Scope, Move] = {}

    def move_leader(self, topic: str, partition: int) -> None:
        """From now on clients look for the leader of a partition again."""
        scope = Scope(topic=topic, partition=partition)
        self._moves[scope] = Move(
            scope=scope, asked_there=ASKED_OF_LEADERS, found_by="Metadata", code=ErrorCode.NOT_LEADER_OR_FOLLOWER
        )

    def move_coordinator(self, group: str) -> None:
        """From now on clients look for the coordinator of a group again."""
        scope = Scope(group=group)
        self._moves[scope] = Move(
            scope=scope, asked_there=ASKED_OF_COORDINATORS, found_by="FindCoordinator", code=ErrorCode.NOT_COORDINATOR
        )

    def clear(self) -> None:
        """Forget them all: every client finds things where it thinks they are."""
        self._moves.clear()

    def __bool__(self) -> bool:
        return bool(self._moves)

    def apply(self, plan: Plan, api: str, client_id: str) -> None:
        """Refuse what is moved; see ``Move``."""
        for move in self._moves.values():
            move.apply(plan, api, client_id)

    def hide_partitions_from(self, client_id: str) -> bool:
        """Whether some partition has moved without the client knowing."""
        return any(move.found_by == "Metadata" and client_id not in move.told for move in self._moves.values())
