"""Creation of topics on first use, and deletion of a topic with everything that refers to it."""

from broker_embedded._coordinator.groups import Groups
from broker_embedded._coordinator.log import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from broker_embedded._coordinator.transactions import Transactions
from broker_embedded._metadata.image import TopicImage
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.shielded_tasks import ShieldedTasks
from broker_embedded._replica.delayed import DelayedOperations
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic
from spark_kafka_native._protocol.topic import INTERNAL_TOPICS, TopicPartition


class TopicLifecycle:
    """Changes of topics that affect other components. Belongs to the event loop."""

    def __init__(
        self,
        *,
        topics: Topics,
        groups: Groups,
        transactions: Transactions,
        delayed: DelayedOperations,
        shielded_tasks: ShieldedTasks,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._transactions = transactions
        self._delayed = delayed
        self._shielded_tasks = shielded_tasks

    async def require(self, name: str) -> TopicImage:
        """The topic; if it does not exist, it is created with the broker's defaults. Raises KafkaError."""
        if name == OFFSETS_TOPIC:
            await self._groups.make_ready()
            return self._topics.image.topics[name]
        if name == TRANSACTIONS_TOPIC:
            await self._transactions.make_ready()
            return self._topics.image.topics[name]
        if name in INTERNAL_TOPICS:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker does not create the internal topic {name}"
            )
        return await self._topics.require(CreatableTopic(name=name, num_partitions=-1, replication_factor=-1))

    async def delete(self, topic: TopicImage) -> None:
        """Delete a topic and its committed offsets, and complete requests that wait for it. Raises KafkaError."""
        await self._shielded_tasks.run(self._delete(topic))

    async def _delete(self, topic: TopicImage) -> None:
        await self._topics.delete(topic)
        for index in range(len(topic.partitions)):
            self._delayed.changed(TopicPartition(topic.name, index))
        await self._transactions.forget_topic(topic.name)
        await self._groups.forget_topic(topic.name)
