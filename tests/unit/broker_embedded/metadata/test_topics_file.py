"""topics.json: what is written is read, anything else is refused."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded.metadata.image import PartitionImage, TopicImage
from broker_embedded.metadata.topics_file import TopicsFileError, decode, encode

IDS = st.integers(-(2**31), 2**31 - 1)
PARTITIONS = st.builds(
    PartitionImage,
    leader=IDS,
    leader_epoch=IDS,
    replicas=st.lists(IDS, max_size=3).map(tuple),
    isr=st.lists(IDS, max_size=3).map(tuple),
)
TOPICS = st.builds(
    TopicImage,
    name=st.text(),
    topic_id=st.uuids(),
    partitions=st.lists(PARTITIONS, max_size=3).map(tuple),
    configs=st.dictionaries(st.text(), st.text(), max_size=3),
)


@given(st.lists(TOPICS, max_size=4), st.dictionaries(st.uuids(), st.text(), max_size=3))
def test_what_is_written_is_read(topics: list[TopicImage], deleting: dict[UUID, str]) -> None:
    read = decode(encode(topics, deleting))
    assert read.topics == tuple(sorted(topics, key=lambda topic: topic.name))
    assert read.deleting == deleting


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "JSONDecodeError"),
        (b"[" * 100_000, "RecursionError"),
        (b"[]", "TypeError"),
        (b'{"version": 2}', "this broker reads version 1"),
        (b'{"version": 1}', "KeyError: 'topics'"),
        (b'{"version": 1, "topics": [], "deleting": [], "more": 1}', "unknown keys more"),
        (b'{"version": 1, "topics": [{"name": "a"}], "deleting": []}', "KeyError"),
        (b'{"version": 1, "topics": [], "deleting": [{"name": "a", "id": "x"}]}', "ValueError"),
        (
            (
                b'{"version": 1, "deleting": [], "topics": [{"name": "a", "id": "%s", "configs": {}, '
                b'"partitions": [{"leader": 1e999, "epoch": 0, "replicas": [1], "isr": [1]}]}]}'
            )
            % str(UUID(int=1)).encode(),
            "OverflowError",
        ),
    ],
)
def test_anything_else_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(TopicsFileError, match=problem):
        decode(raw)


def test_a_cut_file_is_never_taken_for_a_whole_one() -> None:
    topic = TopicImage(
        name="a",
        topic_id=UUID(int=1),
        partitions=(PartitionImage(leader=1, replicas=(1,), isr=(1,)),),
        configs={"k": "v"},
    )
    whole = encode([topic], {UUID(int=2): "b"}).rstrip()
    for length in range(len(whole)):
        with pytest.raises(TopicsFileError):
            decode(whole[:length])
