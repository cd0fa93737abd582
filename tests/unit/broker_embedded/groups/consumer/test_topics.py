"""Topics as groups see them: what is new, and the number that stands for them."""

from uuid import UUID

from broker_embedded.groups.consumer.topics import EMPTY_VIEW, SubscribableTopic, TopicsView

GREETINGS = SubscribableTopic(topic_id=UUID(int=0x0123456789ABCDEFFEDCBA9876543210), name="grüße-topic", partitions=3)
WIDE = SubscribableTopic(topic_id=UUID(int=(1 << 64) | 2), name="wide", partitions=200)


def test_topics_are_found_by_name_and_id() -> None:
    view = TopicsView.of([GREETINGS, WIDE], version=7)
    assert view.ids_of(["wide", "nothing"]) == {WIDE.topic_id}
    assert view.by_id[GREETINGS.topic_id] is GREETINGS
    assert (view.version, view.created_version) == (7, 7)


def test_versions_grow_and_tell_when_a_topic_was_made() -> None:
    first = TopicsView.of([WIDE], version=100)
    fewer = TopicsView.of([], version=90, before=first)
    assert (fewer.version, fewer.created_version) == (101, 100)
    more = TopicsView.of([WIDE, GREETINGS], version=500, before=fewer)
    assert (more.version, more.created_version) == (500, 500)


def test_the_hash_is_the_one_that_apache_kafka_computes() -> None:
    # Computed by hash4j 0.22 in the order in which Apache Kafka 4.3 puts a topic's values.
    assert TopicsView.of([GREETINGS, WIDE]).metadata_hash(["wide", "nothing", "grüße-topic"]) == -8876051830622960170


def test_the_hash_changes_with_what_matters() -> None:
    view = TopicsView.of([GREETINGS, WIDE])
    wider = SubscribableTopic(topic_id=WIDE.topic_id, name="wide", partitions=201)
    again = SubscribableTopic(topic_id=UUID(int=9), name="wide", partitions=200)
    hashes = {
        view.metadata_hash(["wide"]),
        view.metadata_hash(["wide", "grüße-topic"]),
        TopicsView.of([wider]).metadata_hash(["wide"]),
        TopicsView.of([again]).metadata_hash(["wide"]),
    }
    assert len(hashes) == 4
    assert view.metadata_hash(["nothing"]) == EMPTY_VIEW.metadata_hash(["wide"]) == 0
