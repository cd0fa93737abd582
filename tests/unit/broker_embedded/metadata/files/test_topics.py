from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded.metadata.files.metadata_file import MetadataFileError
from broker_embedded.metadata.files.topics import TOPICS
from broker_embedded.metadata.image import EMPTY_IMAGE, PartitionImage, TopicImage

IDS = st.integers(-(2**31), 2**31 - 1)
PARTITIONS = st.builds(
    PartitionImage,
    leader=IDS,
    leader_epoch=IDS,
    replicas=st.lists(IDS, max_size=3).map(tuple),
    isr=st.lists(IDS, max_size=3).map(tuple),
)
ANY_TOPIC = st.builds(
    TopicImage,
    name=st.text(),
    topic_id=st.uuids(),
    partitions=st.lists(PARTITIONS, max_size=3).map(tuple),
    configs=st.dictionaries(st.text(), st.text(), max_size=3),
)


UNIQUE_TOPICS = st.lists(ANY_TOPIC, max_size=4, unique_by=(lambda topic: topic.name, lambda topic: topic.topic_id))


@given(UNIQUE_TOPICS, st.dictionaries(st.uuids(), st.text(), max_size=3))
def test_topics_survive_encoding(topics: list[TopicImage], deleting: dict[UUID, str]) -> None:
    read = TOPICS.decode(TOPICS.encode(EMPTY_IMAGE.with_topics(topics, deleting=deleting)))
    assert list(read.topics.values()) == sorted(topics, key=lambda topic: topic.name)
    assert read.deleting == deleting


@pytest.mark.parametrize("twice", ["name", "topic_id"])
def test_topics_that_share_a_name_or_an_id_are_refused(twice: str) -> None:
    topics = [TopicImage(name=f"t{number}", topic_id=UUID(int=number), partitions=()) for number in range(2)]
    raw = TOPICS.encode(EMPTY_IMAGE.with_topics(topics, deleting={}))
    changed = raw.replace(b"t1", b"t0") if twice == "name" else raw.replace(b"000001", b"000000")
    assert changed != raw
    with pytest.raises(MetadataFileError, match="is repeated"):
        TOPICS.decode(changed)
