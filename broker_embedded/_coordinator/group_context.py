"""The context of groups: the broker's settings, and the view of topics for consumer groups."""

from collections.abc import Callable

from broker_embedded._config.config import BrokerConfig
from broker_embedded._groups.classic.group import ClassicConfig
from broker_embedded._groups.consumer.config import ConsumerConfig, ConsumerContext
from broker_embedded._groups.consumer.topics import EMPTY_VIEW, SubscribableTopic, TopicsView
from broker_embedded._groups.records import RecordVersions
from broker_embedded._groups.replay import ReplayContext
from broker_embedded._metadata.image import ClusterImage


def replay_context(
    config: BrokerConfig, consumer_config: Callable[[str], ConsumerConfig], topics: Callable[[], TopicsView]
) -> ReplayContext:
    """The context of all groups. The settings of a consumer group, by its id, and the topics may change."""
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


class ConsumerTopics:
    """Creates a new view on the first call after a change of the topics."""

    def __init__(self, image: Callable[[], ClusterImage], now_ms: Callable[[], int]) -> None:
        """``now_ms`` returns the versions of views, so that they increase across restarts of the broker."""
        self._image = image
        self._now_ms = now_ms
        self._seen: ClusterImage | None = None
        self._view = EMPTY_VIEW

    def view(self) -> TopicsView:
        """The view of the present topics."""
        image = self._image()
        if self._seen is None or image.topics is not self._seen.topics:
            self._view = TopicsView.of(
                (
                    SubscribableTopic(topic_id=topic.topic_id, name=topic.name, partitions=len(topic.partitions))
                    for topic in image.topics.values()
                ),
                version=self._now_ms(),
                before=None if self._seen is None else self._view,
            )
            self._seen = image
        return self._view
