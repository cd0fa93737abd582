"""Resources with settings: topics, the broker, all brokers, the broker's loggers, groups.

Unknown settings of a topic or a group are refused. Unknown settings of the broker are stored, as in Kafka.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from broker_embedded._config.consumer_settings import GroupSettings
from broker_embedded._config.log_config import LogConfig
from broker_embedded._config.releases import ELIGIBLE_LEADER_REPLICAS_VERSION
from broker_embedded._config.settings import INT_MAX, Setting, SettingError
from broker_embedded._metadata.config_changes import ConfigChange, ResourceType
from broker_embedded._metadata.config_entries import (
    ConfigEntry,
    ConfigSource,
    broker_entries,
    cluster_entries,
    group_entries,
    topic_entries,
)
from broker_embedded._metadata.dynamic_configs import DynamicConfigs
from broker_embedded._metadata.features import MIN_ISR, has_eligible_leader_replicas
from broker_embedded._metadata.files.stored_configs import StoredConfigs
from broker_embedded._metadata.loggers import change_levels, logger_levels
from broker_embedded._metadata.topics import Topics
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.topic import topic_name_problem

_INTEGER: Final = re.compile(r"[+-]?\d+")
_MAX_DIGITS: Final = 1000
"""Python refuses to convert more than 4300 digits. Java takes any number of leading zeros."""

Change: TypeAlias = Callable[[Mapping[str, str], Mapping[str, Setting]], Mapping[str, str]]
"""The settings after a change, from the present ones and the known settings. May raise KafkaError."""


class ConfigResources:
    """The settings of every resource. Belongs to the event loop."""

    def __init__(self, topics: Topics, configs: DynamicConfigs, data_dir: str) -> None:
        self._topics = topics
        self._configs = configs
        self._data_dir = data_dir

    def entries(self, resource_type: int, name: str) -> list[ConfigEntry]:
        """Every setting of a resource. Raises KafkaError: the resource does not exist."""
        match resource_type:
            case ResourceType.TOPIC:
                return self._topic_entries(name)
            case ResourceType.BROKER:
                if not name:
                    return cluster_entries(self._configs)
                self._check_node(name)
                return broker_entries(self._configs.config, self._configs, log_dirs=self._data_dir)
            case ResourceType.BROKER_LOGGER:
                self._check_node(name)
                levels = logger_levels().items()
                return [ConfigEntry(key=key, value=level, source=ConfigSource.BROKER_LOGGER) for key, level in levels]
            case ResourceType.GROUP:
                if not name:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
                return group_entries(self._configs.stored.groups.get(name, {}), self._configs)
            case _:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")

    async def alter(self, resource_type: int, name: str, change: Change, *, validate_only: bool) -> None:
        """Change settings of a topic, a group, the broker or, without a name, all brokers, or check that they could be.

        Raises KafkaError, and nothing has changed.
        """
        match resource_type:
            case ResourceType.TOPIC:
                if not name:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
                _check_topic_name(name)
                known = LogConfig.settings()
                await self._topics.configure(name, lambda now: change(now, known), validate_only=validate_only)
            case ResourceType.BROKER:
                if name:
                    self._check_node(name)
                await self._configs.change(self._of_broker(name, change), validate_only=validate_only)
            case ResourceType.GROUP:
                if not name:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
                await self._configs.change(self._of_group(name, change), validate_only=validate_only)
            case _:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")

    def alter_loggers(self, name: str, changes: tuple[ConfigChange, ...], *, validate_only: bool) -> None:
        """Change the levels of loggers, or check that they could be. Raises KafkaError, and nothing has changed."""
        self._check_node(name)
        change_levels(changes, validate_only=validate_only)

    def all(self) -> list[tuple[ResourceType, str]]:
        """Type and name of every resource; of groups, those with settings of their own."""
        node = str(self._configs.config.node_id)
        return [
            *((ResourceType.GROUP, group_id) for group_id in sorted(self._configs.stored.groups)),
            (ResourceType.BROKER_LOGGER, node),
            (ResourceType.BROKER, node),
            *((ResourceType.TOPIC, name) for name in sorted(self._topics.image.topics)),
        ]

    def _topic_entries(self, name: str) -> list[ConfigEntry]:
        _check_topic_name(name)
        topic = self._topics.image.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(self._topics.log_config(topic), topic.configs, self._configs)

    def _of_broker(self, name: str, change: Change) -> Callable[[StoredConfigs], StoredConfigs]:
        known = self._configs.config.known()

        def plan(now: StoredConfigs) -> StoredConfigs:
            node_id = self._configs.config.node_id
            own = now.brokers.get(node_id, {})
            wanted = change(own if name else now.cluster, known)
            what = None
            if name and MIN_ISR in wanted:
                what = "set for a single broker, only for all brokers,"
            elif not name and MIN_ISR not in wanted:
                what = "removed for all brokers"
            if what is not None and has_eligible_leader_replicas(self._configs.config, now):
                detail = f"{MIN_ISR} cannot be {what} while {ELIGIBLE_LEADER_REPLICAS_VERSION} is 1 (KIP-966)"
                raise KafkaError(ErrorCode.INVALID_CONFIG, detail)
            return now.with_broker(node_id, wanted) if name else now.with_cluster(wanted)

        return plan

    def _of_group(self, group_id: str, change: Change) -> Callable[[StoredConfigs], StoredConfigs]:
        known = GroupSettings.settings()

        def plan(now: StoredConfigs) -> StoredConfigs:
            wanted = change(now.groups.get(group_id, {}), known)
            try:
                self._configs.config.check_group(wanted)
            except SettingError as error:
                raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
            return now.with_group(group_id, wanted)

        return plan

    def _check_node(self, name: str) -> None:
        """Raise KafkaError unless ``name`` is this broker's id."""
        node_id, named = self._configs.config.node_id, _node_id(name)
        if named is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
        if named != node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}"
            )


def resource_key(resource_type: int, name: str) -> tuple[int, str | int]:
    """The key of a resource: two names of one broker, such as ``1`` and ``01``, have the same key."""
    node_id = _node_id(name) if resource_type in {ResourceType.BROKER, ResourceType.BROKER_LOGGER} else None
    return resource_type, name if node_id is None else node_id


def _check_topic_name(name: str) -> None:
    problem = topic_name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def _node_id(name: str) -> int | None:
    """The id in a name, parsed as by Java's ``Integer.parseInt``; None for an invalid text.

    Valid are a sign and decimal digits of any script whose characters have 16 bits, without blanks or underscores.
    """
    if not _INTEGER.fullmatch(name) or len(name) > _MAX_DIGITS or any(ord(character) > 0xFFFF for character in name):
        return None
    number = int(name)
    return number if -INT_MAX - 1 <= number <= INT_MAX else None
