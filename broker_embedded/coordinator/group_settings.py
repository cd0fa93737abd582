"""What groups are made with: the broker's settings, as the state machines take them."""

from collections.abc import Callable

from broker_embedded.config.config import BrokerConfig
from broker_embedded.groups.classic.group import ClassicConfig
from broker_embedded.groups.consumer.config import ConsumerConfig, ConsumerContext
from broker_embedded.groups.consumer.topics import TopicsView
from broker_embedded.groups.records import RecordVersions
from broker_embedded.groups.replay import ReplayContext


def replay_context(
    config: BrokerConfig, consumer_config: Callable[[str], ConsumerConfig], topics: Callable[[], TopicsView]
) -> ReplayContext:
    """The settings of every kind of group; those of a consumer group, by its id, and the topics change with time."""
    classic = ClassicConfig(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        record_versions=RecordVersions(
            offset=config.release.offset_value_version, classic_group=config.release.group_value_version
        ),
    )
    return ReplayContext(
        classic=classic, consumer=ConsumerContext(config=consumer_config, topics=topics, classic=classic)
    )
