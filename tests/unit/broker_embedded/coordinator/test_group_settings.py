"""The broker's settings as groups take them."""

from broker_embedded.config.config import BrokerConfig
from broker_embedded.coordinator.group_settings import replay_context
from broker_embedded.groups.classic.group import ClassicConfig
from broker_embedded.groups.consumer.config import ConsumerConfig
from broker_embedded.groups.consumer.topics import TopicsView
from broker_embedded.groups.records import RecordVersions
from broker_embedded.groups.replay import ReplayContext


def context(**given: object) -> ReplayContext:
    config = BrokerConfig.parse({key.replace("_", "."): value for key, value in given.items()})

    def topics() -> TopicsView:
        raise AssertionError("nobody asks for topics here")

    return replay_context(config, lambda _: ConsumerConfig(), topics)


def test_defaults_are_the_same_on_both_sides() -> None:
    assert context().classic == ClassicConfig()


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


def test_settings_of_consumer_groups_are_asked_for_by_id() -> None:
    assert context().consumer.config("g") == ConsumerConfig()
