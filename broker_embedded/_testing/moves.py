"""Simulated moves of leaders and coordinators on a single broker, after which clients must find them again.

A moved partition has a new leader epoch, which is in Metadata, and a fetch with the old one is fenced. A client gets
NOT_LEADER_OR_FOLLOWER from the APIs of leaders until it has requested the topic's metadata. A client of a moved group
gets NOT_COORDINATOR until it has requested the coordinator. The members, generation and offsets of the group are
unchanged, as if the new coordinator had loaded them. Clients are identified by their client id.
"""

from dataclasses import dataclass, field
from typing import Final

from broker_embedded._testing.planning import RequestPlan
from broker_embedded._testing.scopes import Scope
from spark_kafka_native._protocol.errors import ErrorCode

LEADER_APIS: Final = frozenset(
    {
        "Produce",
        "Fetch",
        "ListOffsets",
        "OffsetForLeaderEpoch",
        "DeleteRecords",
        "DescribeProducers",
        "WriteTxnMarkers",
    }
)
COORDINATOR_APIS: Final = frozenset(
    {
        "OffsetCommit",
        "OffsetFetch",
        "OffsetDelete",
        "TxnOffsetCommit",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "DescribeGroups",
        "DeleteGroups",
        "ConsumerGroupHeartbeat",
        "ConsumerGroupDescribe",
    }
)


@dataclass(slots=True, kw_only=True)
class Move:
    """One move. ``informed`` are the client ids that have requested the new leader or coordinator."""

    scope: Scope
    apis: frozenset[str]
    lookup_api: str
    code: ErrorCode
    informed: set[str] = field(default_factory=set)

    def apply(self, plan: RequestPlan, api: str, client_id: str) -> None:
        """Refuse a request of a client that does not know of the move, or record that it requests the new location."""
        if api == self.lookup_api and plan.concerns(self.scope):
            self.informed.add(client_id)
        elif api in self.apis and client_id not in self.informed:
            plan.refuse(self.scope, self.code)


class Moves:
    """All moves. A second move of a partition or group replaces the first one."""

    def __init__(self) -> None:
        self._moves: dict[Scope, Move] = {}

    def move_leader(self, topic: str, partition: int) -> None:
        """Make clients find the leader of a partition again."""
        scope = Scope(topic=topic, partition=partition)
        self._moves[scope] = Move(
            scope=scope, apis=LEADER_APIS, lookup_api="Metadata", code=ErrorCode.NOT_LEADER_OR_FOLLOWER
        )

    def move_coordinator(self, group: str) -> None:
        """Make clients find the coordinator of a group again."""
        scope = Scope(group=group)
        self._moves[scope] = Move(
            scope=scope, apis=COORDINATOR_APIS, lookup_api="FindCoordinator", code=ErrorCode.NOT_COORDINATOR
        )

    def clear(self) -> None:
        """Drop all moves."""
        self._moves.clear()

    def __bool__(self) -> bool:
        return bool(self._moves)

    def apply(self, plan: RequestPlan, api: str, client_id: str) -> None:
        """Refuse requests for moved partitions and groups; see ``Move``."""
        for move in self._moves.values():
            move.apply(plan, api, client_id)

    def hide_partitions_from(self, client_id: str) -> bool:
        """Whether a partition has moved without the knowledge of the client."""
        return any(move.lookup_api == "Metadata" and client_id not in move.informed for move in self._moves.values())
