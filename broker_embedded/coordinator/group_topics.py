"""The cluster's topics as consumer groups see them."""

from collections.abc import Callable

from broker_embedded.groups.consumer.topics import EMPTY_VIEW, SubscribableTopic, TopicsView
from broker_embedded.metadata.image import ClusterImage


class ConsumerTopics:
    """Makes a new view when the topics have changed, and somebody asks."""

    def __init__(self, image: Callable[[], ClusterImage], now_ms: Callable[[], int]) -> None:
        """``now_ms`` makes versions of views, which so grow even if the broker starts anew."""
        self._image = image
        self._now_ms = now_ms
        self._seen: ClusterImage | None = None
        self._view = EMPTY_VIEW

    def view(self) -> TopicsView:
        """The topics as they are now."""
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
