"""Settings of consumer groups (KIP-848): ``group.consumer.*`` of the broker, and those of a single group.

The settings of a group (resource type GROUP) go before the broker's. They keep within the broker's bounds when they are
made, and are brought within them where the bounds have moved since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker_embedded._config.settings import Setting, SettingError, parse_settings, refuse_unknown, setting, settings_of
from broker_embedded._groups.consumer.assignors import ASSIGNORS
from broker_embedded._groups.consumer.config import ConsumerConfig, MigrationPolicy

_POLICIES: Final = tuple(policy.value for policy in MigrationPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of a single group."""

    consumer_session_timeout_ms: int = setting(
        45000, "Time without a heartbeat after which a member of the group is removed.", at_least=1, dynamic=True
    )
    consumer_heartbeat_interval_ms: int = setting(
        5000, "How often members of the group must send a heartbeat.", at_least=1, dynamic=True
    )
    consumer_assignment_interval_ms: int = setting(
        1000, "Shortest time between two assignments of the group.", at_least=0, dynamic=True
    )

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Every setting by its key."""
        return settings_of(cls)


@dataclass(frozen=True, kw_only=True)
class ConsumerGroupSettings:
    """The broker's settings of consumer groups."""

    group_consumer_session_timeout_ms: int = setting(
        45000, "Time without a heartbeat after which a member of a consumer group is removed.", at_least=1
    )
    group_consumer_min_session_timeout_ms: int = setting(
        45000, "Shortest consumer.session.timeout.ms of a group.", at_least=1
    )
    group_consumer_max_session_timeout_ms: int = setting(
        60000, "Longest consumer.session.timeout.ms of a group.", at_least=1
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        5000, "How often members of consumer groups must send a heartbeat.", at_least=1
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        5000, "Shortest consumer.heartbeat.interval.ms of a group.", at_least=1
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        15000, "Longest consumer.heartbeat.interval.ms of a group.", at_least=1
    )
    group_consumer_assignment_interval_ms: int = setting(
        1000, "Shortest time between two assignments of a consumer group.", at_least=0, dynamic=True
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        0, "Shortest consumer.assignment.interval.ms of a group.", at_least=0
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        15000, "Longest consumer.assignment.interval.ms of a group.", at_least=0
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        600000, "How often subscriptions by regular expression are resolved, if no topic is created.", at_least=10000
    )
    group_consumer_max_size: int = setting(2**31 - 1, "Members of a consumer group at most.", at_least=1)
    group_consumer_assignors: tuple[str, ...] = setting(
        tuple(ASSIGNORS),
        "Assignors that members may choose; the first is the default.",
        choices=tuple(ASSIGNORS),
    )
    group_consumer_migration_policy: str = setting(
        "bidirectional",
        "Protocols that a group with members may migrate between: upgrade is from classic to consumer.",
        choices=_POLICIES,
    )

    def check_consumer_groups(self) -> None:
        """Raise SettingError: settings of consumer groups contradict each other."""
        if not self.group_consumer_assignors:
            raise SettingError("group.consumer.assignors", "the list must not be empty")
        for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
            low, value, high = (self._of(f"{part}{name}") for part in ("min.", "", "max."))
            if high < low:
                raise SettingError(f"group.consumer.max.{name}", f"{high} is below group.consumer.min.{name}, {low}")
            if not low <= value <= high:
                raise SettingError(
                    f"group.consumer.{name}",
                    f"{value} is not between group.consumer.min.{name}, {low}, and group.consumer.max.{name}, {high}",
                )
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise SettingError(
                "group.consumer.heartbeat.interval.ms",
                f"{self.group_consumer_heartbeat_interval_ms} is not below group.consumer.session.timeout.ms, "
                f"{self.group_consumer_session_timeout_ms}",
            )

    def check_group(self, given: Mapping[str, str]) -> None:
        """Raise SettingError unless these are valid settings of a group."""
        known = GroupSettings.settings()
        refuse_unknown(given, known)
        for key, value in _parsed(given).items():
            low, high = self._bounds(key)
            if not low <= value <= high:
                raise SettingError(key, f"{value} is not between {low} and {high}, the broker's bounds (group.{key})")
        config = self.consumer_config(given)
        session_ms, interval_ms = config.session_timeout_ms, config.heartbeat_interval_ms
        if session_ms <= interval_ms:
            problem = f"{session_ms} is not above consumer.heartbeat.interval.ms, {interval_ms}"
            raise SettingError("consumer.session.timeout.ms", problem)

    def consumer_config(self, of_group: Mapping[str, str]) -> ConsumerConfig:
        """The configuration of a group, from its own settings."""
        own = {}
        for key, value in _parsed(of_group).items():
            low, high = self._bounds(key)
            own[key] = min(max(value, low), high)
        return ConsumerConfig(
            session_timeout_ms=own.get("consumer.session.timeout.ms", self.group_consumer_session_timeout_ms),
            heartbeat_interval_ms=own.get("consumer.heartbeat.interval.ms", self.group_consumer_heartbeat_interval_ms),
            assignment_interval_ms=own.get(
                "consumer.assignment.interval.ms", self.group_consumer_assignment_interval_ms
            ),
            regex_refresh_interval_ms=self.group_consumer_regex_refresh_interval_ms,
            max_size=self.group_consumer_max_size,
            assignors=self.group_consumer_assignors,
            migration_policy=MigrationPolicy(self.group_consumer_migration_policy),
        )

    def _bounds(self, key: str) -> tuple[int, int]:
        """The broker's bounds of a group's setting."""
        return self._of(key.replace("consumer.", "min.")), self._of(key.replace("consumer.", "max."))

    def _of(self, name: str) -> int:
        value: int = getattr(self, f"group.consumer.{name}".replace(".", "_"))
        return value


def _parsed(given: Mapping[str, str]) -> dict[str, int]:
    known = GroupSettings.settings()
    values = parse_settings(known, given)
    return {key: values[key.replace(".", "_")] for key in given}
