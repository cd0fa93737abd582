from uuid import UUID

from broker_embedded._config.config import BrokerConfig
from broker_embedded._coordinator.group_context import ConsumerTopics, replay_context
from broker_embedded._groups.classic.group import ClassicConfig
from broker_embedded._groups.consumer.config import ConsumerConfig
from broker_embedded._groups.consumer.topics import TopicsView
from broker_embedded._groups.records import RecordVersions
from broker_embedded._groups.replay import ReplayContext
from broker_embedded._metadata.image import EMPTY_IMAGE, PartitionImage, TopicImage


def context(**given: object) -> ReplayContext:
    config = BrokerConfig.parse({key.replace("_", "."): value for key, value in given.items()})

    def topics() -> TopicsView:
        raise AssertionError("no topics are needed here")

    return replay_context(config, lambda _: ConsumerConfig(), topics)


def test_defaults_are_the_same_on_both_sides() -> None:
    assert context().classic == ClassicConfig()
    assert context().consumer.config("g") == ConsumerConfig()


def test_settings_of_classic_groups() -> None:
    assert context(
        group_initial_rebalance_delay_ms=1,
        group_min_session_timeout_ms=2,
        group_max_session_timeout_ms=3,
        group_max_size=4,
    ).classic == ClassicConfig(
        initial_rebalance_delay_ms=1, min_session_timeout_ms=2, max_session_timeout_ms=3, max_size=4
    )


def test_records_are_written_as_the_release_does() -> None:
    versions = context(as_version="2.2").classic.record_versions
    assert versions == RecordVersions(offset=3, classic_group=2)


def topic(name: str, number: int, partitions: int = 1) -> TopicImage:
    part = PartitionImage(leader=1, replicas=(1,), isr=(1,))
    return TopicImage(name=name, topic_id=UUID(int=number), partitions=(part,) * partitions)


class World:
    def __init__(self) -> None:
        self.image = EMPTY_IMAGE.with_topic(topic("a", 1))
        self.now_ms = 1000
        self.topics = ConsumerTopics(lambda: self.image, lambda: self.now_ms)


def test_a_view_is_made_when_the_topics_have_changed() -> None:
    world = World()
    first = world.topics.view()
    assert {name: made.partitions for name, made in first.by_name.items()} == {"a": 1}
    assert world.topics.view() is first
    world.image = world.image.with_topic(topic("b", 2, partitions=3))
    world.now_ms = 5000
    second = world.topics.view()
    assert second.by_name["b"].partitions == 3
    assert (first.version, second.version, second.created_version) == (1000, 5000, 5000)


def test_versions_grow_though_the_clock_does_not() -> None:
    world = World()
    world.topics.view()
    world.now_ms = 10
    world.image = world.image.without_topic(topic("a", 1))
    assert world.topics.view().version == 1001


def test_a_topic_made_again_is_another_one() -> None:
    world = World()
    world.topics.view()
    world.image = world.image.without_topic(topic("a", 1)).with_topic(topic("a", 9))
    assert world.topics.view().created_version > 1000
