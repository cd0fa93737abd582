from uuid import UUID

import pytest

from broker_embedded._metadata.image import EMPTY_IMAGE, PartitionImage, TopicImage
from broker_embedded._metadata.reconcile import InconsistentTopicError, Reconciled, reconcile, with_epochs
from spark_kafka_native._protocol.topic import TopicPartition

A, B, NEW = UUID(int=1), UUID(int=2), UUID(int=99)


def topic(name: str, topic_id: UUID, partitions: int) -> TopicImage:
    ours = PartitionImage(leader=1, replicas=(1,), isr=(1,))
    return TopicImage(name=name, topic_id=topic_id, partitions=(ours,) * partitions)


def start(found: dict[str, UUID | None], *topics: TopicImage, deleting: dict[UUID, str] | None = None) -> Reconciled:
    directories = {
        TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])): topic_id
        for name, topic_id in found.items()
    }
    stored = EMPTY_IMAGE.with_topics(topics, deleting=deleting or {})
    return reconcile(stored, directories, node_id=1, new_id=lambda: NEW)


def names(partitions: tuple[TopicPartition, ...]) -> list[str]:
    return [str(partition) for partition in partitions]


def test_when_all_agree_there_is_nothing_to_do() -> None:
    a = topic("a", A, 2)
    result = start({"a-0": A, "a-1": A}, a)
    assert result == Reconciled(topics=(a,), leftovers=(), missing={}, adopted=())


def test_a_topic_in_the_file_is_completed() -> None:
    result = start({"a-1": A}, topic("a", A, 3), topic("b", B, 1))
    assert {name: names(missing) for name, missing in result.missing.items()} == {"a": ["a-0", "a-2"], "b": ["b-0"]}
    assert result.adopted == ()


def test_a_deleted_topic_is_removed() -> None:
    result = start({"a-0": A, "a-1": A, "b-0": B}, topic("b", B, 1), deleting={A: "a"})
    assert names(result.leftovers) == ["a-0", "a-1"]
    assert [found.name for found in result.topics] == ["b"]


def test_of_a_topic_deleted_and_made_again_the_old_directories_go_and_the_new_are_made() -> None:
    result = start({"a-0": A}, topic("a", B, 1), deleting={A: "a"})
    assert names(result.leftovers) == ["a-0"]
    assert names(result.missing["a"]) == ["a-0"]


def test_unknown_directories_become_topics() -> None:
    result = start({"a-0": A, "a-2": A, "old-kafka-0": None})
    assert result.topics == (topic("a", A, 3), topic("old-kafka", NEW, 1))
    assert result.adopted == ("a", "old-kafka")
    assert names(result.missing["a"]) == ["a-1"]


def test_a_directory_after_the_last_partition_adds_partitions_to_its_topic() -> None:
    result = start({"a-0": A, "a-1": A}, topic("a", A, 1))
    assert result.topics == (topic("a", A, 2),)
    assert result.adopted == ("a",)


def test_a_directory_without_an_id_belongs_to_the_topic_of_its_name() -> None:
    assert start({"a-0": None}, topic("a", A, 1)).topics == (topic("a", A, 1),)
    assert names(start({"a-0": None}, deleting={A: "a"}).leftovers) == ["a-0"]


def test_two_topics_with_one_name_stop_the_start() -> None:
    with pytest.raises(InconsistentTopicError, match=r"directory a-0 belongs to topic id 0+-.*-0+2, but topics\.json"):
        start({"a-0": B}, topic("a", A, 1))


def test_leader_epochs_continue_from_the_epochs_of_the_logs() -> None:
    (found,) = with_epochs([topic("a", A, 3)], {TopicPartition("a", 1): 4, TopicPartition("other", 0): 9})
    assert [partition.leader_epoch for partition in found.partitions] == [0, 4, 0]
    (later,) = with_epochs([found], {TopicPartition("a", 0): 1, TopicPartition("a", 1): 3})
    assert [partition.leader_epoch for partition in later.partitions] == [1, 4, 0]
