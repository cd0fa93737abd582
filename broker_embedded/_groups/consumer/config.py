"""The context of consumer groups: settings and topics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from broker_embedded._groups.classic.group import ClassicConfig
from broker_embedded._groups.consumer.topics import EMPTY_VIEW, TopicsView


class MigrationPolicy(Enum):
    """The protocols that a group with members may migrate between. A group without members may always migrate."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """From the classic protocol to the consumer protocol."""
        return self in {MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL}

    @property
    def allows_downgrade(self) -> bool:
        """From the consumer protocol to the classic protocol."""
        return self in {MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """The settings of one consumer group: ``group.consumer.*``, overridden by those of the group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    regex_refresh_interval_ms: int = 600_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerContext:
    """Returns the present settings of a group, and the present topics.

    ``classic`` are the settings of classic groups, for migrations.
    """

    config: Callable[[str], ConsumerConfig] = lambda _: ConsumerConfig()
    topics: Callable[[], TopicsView] = lambda: EMPTY_VIEW
    classic: ClassicConfig = field(default_factory=ClassicConfig)
