"""Keeps the topics of the broker and their znodes in ZooKeeper equal.

The broker's own files decide. Tools that work through ZooKeeper change the broker by these znodes:

- A topic in ``/brokers/topics`` that the broker does not have is created, with the settings in ``/config/topics``. If a
  znode has more partitions than the broker, these are added.
- A znode in ``/admin/delete_topics`` deletes a topic, unless ``delete.topic.enable`` is false.
- A znode in ``/config/changes`` replaces the settings of a topic by those in ``/config/topics``. `entity_configs` has
  the other entities. The broker deletes the znode then, because it is the only one that reads it.

Other differences in ``/brokers/topics`` are repaired. Settings are written if they have changed in the broker, or are
missing: a tool writes them before its znode in ``/config/changes``. Those of a topic whose logs were moved here from an
Apache Kafka are read. What tools have written and the broker refuses is
logged: the znodes of a topic that it does not have are left, those of other topics are repaired.

A topic is marked in the broker's files before it is registered (`TopicImage.registered_configs`): as it is created, or
later if it was created without ZooKeeper. If it is deleted in
the broker, its name is kept until its znodes are deleted (`ClusterImage.unregistering`), so that they are not taken for
those of a new topic, also after a crash or while ZooKeeper cannot be reached.

An error of one topic, such as a full disk or a znode that cannot be read, is logged and tried again. The others
continue.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from broker_embedded._config.config import BrokerConfig
from broker_embedded._coordinator.topic_lifecycle import TopicLifecycle
from broker_embedded._metadata.image import PartitionImage, TopicImage
from broker_embedded._metadata.topics import Topics
from broker_embedded._zookeeper.entity_configs import EntityConfigs
from broker_embedded._zookeeper.topic_znodes import (
    BROKER_TOPICS,
    CONFIG_CHANGES,
    CONFIG_TOPICS,
    DELETE_TOPICS,
    TOPICS,
    changed_entity,
    decode_config,
    decode_topic,
    encode_config,
    encode_state,
    encode_topic,
    is_state_of,
    is_topic,
)
from broker_embedded._zookeeper.znodes import Watches, run_limited
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from spark_kafka_native._protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from spark_kafka_native._zookeeper.errors import ConnectionLost, ZooKeeperError
from spark_kafka_native._zookeeper.json_data import InvalidZnode

logger = logging.getLogger(__name__)

_PARTITIONS_IN_REQUEST: Final = 500
"""How many partitions have their znodes created in one request. Each takes about 300 bytes of at most 1,000,000."""


class TopicRegistry:
    """The registration of all topics. Belongs to the event loop; only one task calls ``synchronize``."""

    def __init__(
        self,
        topics: Topics,
        topic_lifecycle: TopicLifecycle,
        entities: EntityConfigs,
        config: Callable[[], BrokerConfig],
        on_change: Callable[[], None],
        watches: Watches,
        controller_epoch: int,
    ) -> None:
        """``on_change`` is called when znodes have changed, and ``synchronize`` has work."""
        self._topics = topics
        self._topic_lifecycle = topic_lifecycle
        self._entities = entities
        self._config = config
        self._on_change = on_change
        self._refused: dict[str, int] = {}
        """A hash of the two znodes of each topic in ZooKeeper that the broker has refused, by name."""
        self._problems: dict[str, str] = {}
        """The last error of each path, so that it is logged once."""
        self._announced = {name: topic.topic_id for name, topic in topics.image.topics.items()}
        """The topics whose settings in ZooKeeper may be newer than their own, because tools know the topics."""
        self._prepared: dict[str, Mapping[str, str]] = {}
        """The settings in ZooKeeper of topics that are to be marked."""
        self.use(watches, controller_epoch)

    def use(self, watches: Watches, controller_epoch: int) -> None:
        """Read all znodes again: in a new session, or after an error."""
        self._watches = watches
        self._znodes = watches.znodes
        self._controller_epoch = controller_epoch
        self._registered: dict[str, TopicImage] = {}
        """The topics whose znodes are as the broker has them."""
        self._found: frozenset[str] = frozenset()
        """The topics in ZooKeeper, as far as they were read."""
        self._unread = {BROKER_TOPICS, CONFIG_CHANGES, DELETE_TOPICS}
        """The parents whose children may have changed."""
        self.is_complete = True
        """Whether the last ``synchronize`` has succeeded with all znodes."""

    async def synchronize(self) -> bool:
        """Apply what tools have changed, then make the znodes equal to the topics. False: some must be tried again.

        Crash between any two steps: the next call repeats what is left. Raises ConnectionLost, or KafkaError of the
        disk: ``use`` must be called before the next call.
        """
        self.is_complete = True
        await self._delete_unregistered()
        await self._for_each_child(DELETE_TOPICS, self._delete_requested)
        await self._for_each_child(CONFIG_CHANGES, self._apply_config_change)
        await self._for_each_child(BROKER_TOPICS, self._create_requested)
        await run_limited(
            self._znodes, self._try_to_prepare, [t for t in self._topics_to_register() if not _is_marked(t)]
        )
        if self._prepared:
            await self._topics.register(self._prepared)
            self._prepared = {}
        topics = {topic.name: topic for topic in self._topics_to_register()}
        for name in self._registered.keys() - topics.keys():
            del self._registered[name]
        changed = [topic for name, topic in topics.items() if self._registered.get(name) is not topic]
        await run_limited(self._znodes, self._try_to_register, [topic for topic in changed if _is_marked(topic)])
        written = {
            topic.name: topic.configs
            for topic in changed
            if self._registered.get(topic.name) is topic and topic.configs != topic.registered_configs
        }
        if written:
            await self._topics.register(written)
        return self.is_complete

    def _topics_to_register(self) -> list[TopicImage]:
        """The topics, except those with znodes of a deleted topic of the same name."""
        image = self._topics.image
        return [topic for name, topic in image.topics.items() if name not in image.unregistering]

    async def _for_each_child(self, parent: str, apply: Callable[[str], Awaitable[None]]) -> None:
        """Call ``apply`` with the children of a znode, if they may have changed."""
        if parent not in self._unread:
            return
        self._unread.discard(parent)
        names: list[str] = []
        if not await self._try(parent, self._list(parent, names)):
            self._unread.add(parent)
        for name in names:
            path = f"{parent}/{name}"
            if parent == BROKER_TOPICS and path not in self._problems and not self._is_unknown(name):
                continue  # most of them, each time a topic is created
            if not await self._try(path, apply(name)):
                self._unread.add(parent)

    async def _list(self, parent: str, names: list[str]) -> None:
        """Add the names of a znode's children."""
        names += await self._watches.children(parent, lambda: self._on_children(parent))
        if parent == BROKER_TOPICS:
            self._found = frozenset(names)
            for gone in self._refused.keys() - set(names):
                del self._refused[gone]

    async def _try(self, path: str, work: Awaitable[None]) -> bool:
        """Await the work on one znode. An error that concerns it alone is logged: False."""
        try:
            await work
        except ConnectionLost:
            raise
        except (ZooKeeperError, KafkaError) as error:
            if self._problems.get(path) != str(error):
                logger.error("%s in ZooKeeper: %s; trying again", path, error)
            self._problems[path] = str(error)
            self.is_complete = False
            return False
        self._problems.pop(path, None)
        return True

    def _on_children(self, parent: str) -> None:
        self._unread.add(parent)
        self._on_change()

    def _on_topic(self, name: str) -> None:
        """The znode of a topic has changed, which the broker may not have."""
        self._registered.pop(name, None)
        self._on_children(BROKER_TOPICS)

    # --- changes in the broker ---------------------------------------------------------------------------------------

    async def _delete_unregistered(self) -> None:
        """Delete the znodes of topics that were deleted."""
        for name in self._topics.image.unregistering:
            await self._try(f"deleted topic {name}", self._unregister(name))

    async def _unregister(self, name: str) -> None:
        """Delete the znodes of a topic. A request to delete it is the last one, so that a crash repeats the others."""
        for parent in (CONFIG_TOPICS, BROKER_TOPICS, DELETE_TOPICS):
            await self._znodes.delete(f"{parent}/{name}")
        self._registered.pop(name, None)
        self._announced.pop(name, None)
        await self._topics.unregistered(frozenset((name,)))

    async def _try_to_prepare(self, topic: TopicImage) -> None:
        await self._try(f"{CONFIG_TOPICS}/{topic.name}", self._prepare(topic))

    async def _prepare(self, topic: TopicImage) -> None:
        """Write the settings of a topic that is not marked, or take those of a topic whose logs were moved here."""
        path = f"{CONFIG_TOPICS}/{topic.name}"
        found = await self._read(path)
        is_moved = found is not None and not topic.configs and await self._is_in_zookeeper(topic)
        if is_moved and found is not None:
            self._prepared[topic.name] = await self._adopt_configs(topic, path, found)
            return
        await self._replace_foreign(path, encode_config(topic.configs))
        self._prepared[topic.name] = topic.configs

    async def _is_in_zookeeper(self, topic: TopicImage) -> bool:
        """Whether another broker has registered a topic with this id."""
        data = await self._read(f"{BROKER_TOPICS}/{topic.name}")
        return data is not None and is_topic(data, topic.topic_id)

    async def _adopt_configs(self, topic: TopicImage, path: str, data: bytes) -> Mapping[str, str]:
        """Take the settings in ZooKeeper; those that the topic has then. The znode is not changed."""
        try:
            found = decode_config(data)
            known = self._config().log.known()
            configs = {key: value for key, value in found.items() if key in known}
            if ignored := sorted(found.keys() - configs.keys()):
                logger.warning(
                    "%s in ZooKeeper: ignored %s, which this release does not have", path, ", ".join(ignored)
                )
            await self._topics.configure(topic.name, lambda _: configs)
        except (InvalidZnode, KafkaError) as error:
            _raise_unless_refused(error)
            logger.error("%s in ZooKeeper is ignored: %s", path, error)
            return topic.configs
        return configs

    async def _try_to_register(self, topic: TopicImage) -> None:
        if not await self._try(f"{BROKER_TOPICS}/{topic.name}", self._register(topic)):
            self._registered.pop(topic.name, None)

    async def _register(self, topic: TopicImage) -> None:
        """Make the znodes of a topic equal to it. Those of partitions that have not changed since are not read.

        A change of the topic's znode makes the topic unregistered again, also if the watch is called before the end.
        """
        before = self._registered.get(topic.name)
        self._registered[topic.name] = topic
        path, encoded = f"{BROKER_TOPICS}/{topic.name}", encode_topic(topic, self._config().release)
        is_created = topic.name not in self._found and await self._create_znodes(topic, path, encoded)
        if not is_created:
            await self._write_configs(topic, path)
            await self._znodes.create(path, encoded)
        znode = await self._watches.get(path, lambda: self._on_topic(topic.name))
        is_present = self._topics.image.topic(topic.name) is topic  # otherwise it was deleted or changed meanwhile
        if znode is not None and is_present and not await self._add_partitions(topic, path, znode.data):
            if znode.data == encoded:
                if not is_created:
                    await self._write_states(path, topic, () if before is None else before.partitions)
                self._announced[topic.name] = topic.topic_id
                return
            await self._znodes.replace(path, encoded, znode.version)  # unless another program has changed it
        self._registered.pop(topic.name, None)  # the next call looks at it again
        self._on_change()

    async def _create_znodes(self, topic: TopicImage, path: str, encoded: bytes) -> bool:
        """Create the znodes of a topic in as few requests as possible. False: some must be compared or written.

        Crash between two requests: the next registration creates the missing ones.
        """
        config_path, config = f"{CONFIG_TOPICS}/{topic.name}", encode_config(topic.configs)
        nodes = {config_path: config, path: encoded, f"{path}/partitions": b""}
        for begin in range(0, len(topic.partitions), _PARTITIONS_IN_REQUEST):
            for index, partition in enumerate(topic.partitions[begin : begin + _PARTITIONS_IN_REQUEST], begin):
                nodes[f"{path}/partitions/{index}"] = b""
                nodes[f"{path}/partitions/{index}/state"] = encode_state(partition, self._controller_epoch)
            if not await self._znodes.create_all(nodes):
                return False
            nodes = {}
        return True

    async def _write_configs(self, topic: TopicImage, path: str) -> None:
        """Write the settings of a topic if they have changed or are missing, or are those of another topic."""
        config_path, encoded = f"{CONFIG_TOPICS}/{topic.name}", encode_config(topic.configs)
        if topic.configs != topic.registered_configs:
            await self._znodes.put(config_path, encoded)
        elif not await self._znodes.create(config_path, encoded):
            is_announced = self._announced.get(topic.name) == topic.topic_id
            if not is_announced or await self._read(path) is None:
                await self._replace_foreign(config_path, encoded)

    async def _replace_foreign(self, path: str, encoded: bytes) -> None:
        """Write the settings of a topic that tools do not know yet."""
        found = await self._read(path)
        if found is not None and found != encoded:
            logger.warning("%s in ZooKeeper has settings of another topic, which are replaced: %r", path, found[:1000])
        await self._znodes.put(path, encoded)

    async def _write_states(self, path: str, topic: TopicImage, before: Sequence[PartitionImage]) -> None:
        """Write the states of partitions, except those that are as ``before``."""
        await self._znodes.create(f"{path}/partitions")
        for index, partition in enumerate(topic.partitions):
            if index >= len(before) or before[index] != partition:
                await self._write_state(f"{path}/partitions/{index}", partition)

    async def _write_state(self, path: str, partition: PartitionImage) -> None:
        """Write the state of a partition. The epoch is that of the controller that has written it."""
        await self._znodes.create(path)
        data = await self._read(f"{path}/state")
        if data is None or not is_state_of(data, partition):
            await self._znodes.put(f"{path}/state", encode_state(partition, self._controller_epoch))

    async def _read(self, path: str) -> bytes | None:
        znode = await self._znodes.get(path)
        return None if znode is None else znode.data

    # --- changes by tools --------------------------------------------------------------------------------------------

    async def _delete_requested(self, name: str) -> None:
        """Delete the topic of a znode in ``/admin/delete_topics``, and the znode."""
        path = f"{DELETE_TOPICS}/{name}"
        if name in self._topics.image.unregistering:  # a client has deleted it, and may have created it again
            await self._unregister(name)
        if await self._read(path) is None:
            return
        if name in self._topics.image.unregistering:  # meanwhile
            await self._unregister(name)
            return
        topic = self._topics.image.topic(name)
        if not self._config().delete_topic_enable:
            logger.warning("topic %s is not deleted as requested in ZooKeeper: delete.topic.enable is false", name)
            await self._znodes.delete(path)
            return
        if topic is not None:
            await self._topic_lifecycle.delete(topic)
        await self._unregister(name)

    async def _apply_config_change(self, name: str) -> None:
        """Apply a znode of ``/config/changes``, and delete it."""
        path = f"{CONFIG_CHANGES}/{name}"
        data = await self._read(path)
        if data is None:
            return
        try:
            entity = changed_entity(data)
            if entity.startswith(f"{TOPICS}/"):
                await self._apply_configs(entity.removeprefix(f"{TOPICS}/"))
            else:
                await self._entities.apply(self._znodes, entity)
        except (InvalidZnode, KafkaError) as error:
            _raise_unless_refused(error)
            logger.error("%s in ZooKeeper is ignored: %s", path, error)
        await self._znodes.delete(path)

    async def _apply_configs(self, name: str) -> None:
        """Replace the settings of a topic by those in ZooKeeper. Raises InvalidZnode, KafkaError: they are refused."""
        if self._refused.pop(name, None) is not None:
            self._on_children(BROKER_TOPICS)
        topic = self._topics.image.topic(name)
        if topic is None:  # only names of topics are safe in paths
            return
        path = f"{CONFIG_TOPICS}/{name}"
        znode = await self._znodes.get(path)
        # It may have been deleted after the tool had changed it, and created again.
        if znode is None or self._topics.image.topic(name) is not topic or name in self._topics.image.unregistering:
            return
        try:
            configs = decode_config(znode.data)
            await self._topics.configure(name, lambda _: configs)
        except (InvalidZnode, KafkaError) as error:
            _raise_unless_refused(error)
            await self._znodes.replace(path, encode_config(topic.configs), znode.version)
            raise
        await self._topics.register({name: configs})

    async def _create_requested(self, name: str) -> None:
        """Create the topic of a znode that the broker does not have."""
        path = f"{BROKER_TOPICS}/{name}"
        if not self._is_unknown(name):
            return
        znode = await self._watches.get(path, lambda: self._on_topic(name))
        configs = await self._read(f"{CONFIG_TOPICS}/{name}") or encode_config({})
        if znode is None or not self._is_unknown(name):
            return
        found = hash((znode.data, configs))
        if self._refused.get(name) == found:
            return
        try:
            topic = await self._topics.create(_creatable(name, znode.data, configs))
        except (InvalidZnode, KafkaError) as error:
            _raise_unless_refused(error)
            if self._is_unknown(name):  # otherwise a client has created it meanwhile
                self._refused[name] = found
                logger.error("%s in ZooKeeper is ignored: %s", path, error)
        else:
            self._announced[name] = topic.topic_id
            self._refused.pop(name, None)

    def _is_unknown(self, name: str) -> bool:
        """Whether the broker neither has a topic, nor has had it when it was registered last."""
        image = self._topics.image
        return image.topic(name) is None and name not in image.unregistering

    async def _add_partitions(self, topic: TopicImage, path: str, data: bytes) -> bool:
        """Add the partitions that a znode has and the topic has not; whether there were some."""
        try:
            replicas = decode_topic(data)
        except InvalidZnode:
            return False  # it is repaired
        if len(replicas) <= len(topic.partitions):
            return False
        added = tuple(CreatePartitionsAssignment(broker_ids=each) for each in replicas[len(topic.partitions) :])
        try:
            await self._topics.add_partitions(
                CreatePartitionsTopic(name=topic.name, count=len(replicas), assignments=added)
            )
        except KafkaError as error:
            _raise_unless_refused(error)
            logger.error("%s in ZooKeeper: no partitions are added: %s", path, error)
            return False
        return True


def _is_marked(topic: TopicImage) -> bool:
    """Whether the broker's files have that the topic may be registered."""
    return topic.registered_configs is not None


def _raise_unless_refused(error: InvalidZnode | KafkaError) -> None:
    """Raise an error of the disk, after which the request of a tool is tried again."""
    if isinstance(error, KafkaError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR:
        raise error


def _creatable(name: str, topic: bytes, configs: bytes) -> CreatableTopic:
    """The topic of two znodes. Raises InvalidZnode."""
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in enumerate(decode_topic(topic))
    )
    entries = tuple(CreatableTopicConfig(name=key, value=value) for key, value in decode_config(configs).items())
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=entries)
