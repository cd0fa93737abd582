from uuid import UUID

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._metadata.features import features_of, transaction_version
from broker_embedded._metadata.files.stored_configs import StoredConfigs
from broker_embedded._metadata.image import ClusterImage, PartitionImage, TopicImage
from broker_embedded._transactions.state import TransactionVersion

ALONE = PartitionImage(leader=1, replicas=(1,), isr=(1,))


def topic(name: str, number: int, partitions: int = 1) -> TopicImage:
    return TopicImage(name=name, topic_id=UUID(int=number), partitions=(ALONE,) * partitions)


def image(*topics: TopicImage) -> ClusterImage:
    empty = ClusterImage(cluster_id="c", controller_id=1, broker_ids=(1,))
    return empty.with_topics(topics, deleting={})


def test_topics_are_found_by_name_and_by_id() -> None:
    both = image(topic("a", 1), topic("b", 2))
    assert both.topic("b") == both.topic_by_id(UUID(int=2)) == topic("b", 2)
    assert both.topic("c") is None
    assert both.topic_by_id(UUID(int=3)) is None


def test_a_change_leaves_the_old_image_as_it_was() -> None:
    old = image(topic("a", 1))
    wider = old.with_topic(topic("a", 1, partitions=3))
    without = wider.without_topic(topic("a", 1))
    assert [len(found.topic("a").partitions) for found in (old, wider) if found.topic("a")] == [1, 3]  # type: ignore[union-attr]  # asked in the condition
    assert without.topic("a") is None
    assert without.topic_by_id(UUID(int=1)) is None


def test_a_topic_made_again_has_its_new_id_alone() -> None:
    again = image(topic("a", 1)).with_topic(topic("a", 2))
    assert again.topic_by_id(UUID(int=1)) is None
    assert again.topic_by_id(UUID(int=2)) == topic("a", 2)


def test_names_and_ids_are_unique() -> None:
    with pytest.raises(ValueError, match=r"topic b .* is repeated"):
        image(topic("a", 1), topic("b", 1))
    with pytest.raises(KeyError):
        image().without_topic(topic("a", 1))


def test_a_deleted_topic_is_named_until_its_logs_are_deleted() -> None:
    deleted = image(topic("a", 1), topic("b", 2)).without_topic(topic("a", 1))
    assert deleted.deleting == {UUID(int=1): "a"}
    assert deleted.with_logs_deleted(UUID(int=1)) == image(topic("b", 2))


def test_changes_of_topics_are_counted() -> None:
    changed = image(topic("a", 1)).with_topic(topic("b", 2)).without_topic(topic("a", 1))
    assert changed.changes == changed.with_logs_deleted(UUID(int=1)).changes == 2


def test_partitions_by_index() -> None:
    two = topic("a", 1, partitions=2)
    assert two.partition(1) is ALONE
    assert two.partition(2) is None
    assert two.partition(-1) is None


def test_consumer_offsets_is_an_internal_topic() -> None:
    assert topic("__consumer_offsets", 1).is_internal
    assert not topic("__mine", 1).is_internal


def level(settings: dict[str, object], **stored: int) -> TransactionVersion:
    levels = {name.replace("_", "."): level for name, level in stored.items()}
    return transaction_version(features_of(BrokerConfig.parse(settings), StoredConfigs(features=levels)))


def test_feature_levels_follow_the_release_unless_they_are_set() -> None:
    assert level({}) is TransactionVersion.TV_2
    assert level({"transaction.version": 1}) is TransactionVersion.TV_1
    assert level({"transaction.version": 1}, transaction_version=0) is TransactionVersion.TV_0
    assert level({}, transaction_version=1) is TransactionVersion.TV_1


def test_other_feature_levels_follow_the_release() -> None:
    config = BrokerConfig.parse({"transaction.version": 0})
    stored = StoredConfigs(features={"transaction.version": 1, "metadata.version": 7})
    found = {feature.name: feature.level for feature in features_of(config, stored)}
    assert found == {feature.name: feature.level for feature in config.release.features} | {"transaction.version": 1}


@pytest.mark.parametrize("release", ["0.11", "3.9"])
def test_releases_without_the_feature_have_level_0(release: str) -> None:
    assert level({"as.version": release}) is TransactionVersion.TV_0
    assert level({"as.version": release}, transaction_version=2) is TransactionVersion.TV_0


def test_a_level_that_the_release_lacks_counts_as_its_highest() -> None:
    assert level({}, transaction_version=9) is TransactionVersion.TV_2
