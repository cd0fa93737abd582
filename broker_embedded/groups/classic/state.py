"""The words that classic groups are described with."""

import enum
from dataclasses import dataclass
from typing import Final

from broker_embedded.groups.outcome import TimerKey
from broker_embedded.groups.records import LATEST_VERSIONS, RecordVersions

JOIN_TIMER: Final[TimerKey] = ("join",)
"""Ends the wait for members to join."""
SYNC_TIMER: Final[TimerKey] = ("sync",)
"""Ends the wait for members to fetch their assignments."""
SESSION: Final = "session"


def session_timer(member_id: str) -> TimerKey:
    """Ends the patience with a silent member."""
    return SESSION, member_id


class ClassicState(enum.Enum):
    """Where a group is between two generations; the values are what clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicConfig:
    """The broker settings of classic groups, ``group.*``, and the versions that their records are written in."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    record_versions: RecordVersions = LATEST_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialDelay:
    """The first rebalance of an empty group waits, and waits on while members come and there is time left.

    ``delay_ms`` is the present wait, ``remaining_ms`` what is left after it; ``member_added`` says that somebody came
    since it began.
    """

    delay_ms: int
    remaining_ms: int
    member_added: bool = False
