"""A broker and its topics in ZooKeeper's znodes in memory."""

import json

from broker_embedded._zookeeper.entity_configs import EntityConfigs
from broker_embedded._zookeeper.registration import create_paths
from broker_embedded._zookeeper.topic_registry import TopicRegistry
from broker_embedded._zookeeper.znodes import Watches
from spark_kafka_native._protocol.ids import format_id
from tests.support.broker.driver import BrokerDriver
from tests.support.zookeeper.znodes_in_memory import ZnodesInMemory, ZooKeeperInMemory

SETTINGS = {"zookeeper.connect": "zookeeper.test:2181"}


class Registered:
    """A broker and its topics in ZooKeeper."""

    def __init__(self, broker: BrokerDriver) -> None:
        self.broker = broker
        self.zookeeper = ZooKeeperInMemory()
        self.woken = 0
        self.open()
        self.broker.run(create_paths(self.zookeeper.session(), self.broker.broker.config.release))

    def open(self, *, fails_after: int | None = None) -> None:
        """Begin in a new session, as after a start."""
        broker = self.broker.broker
        watches = Watches(self.zookeeper.session(fails_after=fails_after))
        entities = EntityConfigs(broker.quotas, broker.scram_users, broker.configs, broker.config_resources)
        self.registry = TopicRegistry(
            broker.topics, broker.topic_lifecycle, entities, lambda: broker.config, self._wake, watches, 1
        )
        broker.on_topics_changed(self._wake)

    def use(self, *, fails_after: int | None = None) -> ZnodesInMemory:
        """Continue in a new session, which is returned."""
        session = self.zookeeper.session(fails_after=fails_after)
        self.registry.use(Watches(session), 1)
        return session

    def create_without_zookeeper(self, *names: str) -> None:
        """Create topics while the broker is not registered. Apache Kafka may have created their directories."""
        self.broker.restart({"enable.zookeeper": "false"})
        for name in names:
            self.broker.create(name)
        self.broker.restart({"enable.zookeeper": "true"})
        self.open()

    def synchronize(self) -> None:
        """Synchronize until there is no more work."""
        for _ in range(10):
            self.woken = 0
            self.broker.run(self.registry.synchronize())
            if not self.woken:
                return
        raise AssertionError("the registry wakes itself up again and again")

    def topics(self) -> dict[str, int]:
        """The broker's topics, with their numbers of partitions."""
        return {name: len(topic.partitions) for name, topic in self.broker.broker.image.topics.items()}

    def nodes(self) -> dict[str, str]:
        """The nodes of topics, their states and their settings."""
        return self.zookeeper.data("/brokers/topics") | self.zookeeper.data("/config")

    def _wake(self) -> None:
        self.woken += 1


def topic_node(broker: BrokerDriver, name: str, partitions: int = 1) -> str:
    """The node of a topic whose replicas are on broker 1, in the format of Kafka 2.8 to 3.9."""
    entries = {
        "partitions": {str(index): [1] for index in range(partitions)},
        "version": 3,
        "adding_replicas": {},
        "removing_replicas": {},
        "topic_id": format_id(broker.topic_id(name)),
    }
    return json.dumps(entries, separators=(",", ":"))
