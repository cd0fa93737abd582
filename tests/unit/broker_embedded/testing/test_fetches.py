"""Which partitions are paused, and what becomes of a Fetch that names them."""

from uuid import UUID

import pytest

from broker_embedded.testing.fetches import Pauses, continues_session, without_session
from broker_embedded.testing.scopes import EVERYTHING, Scope
from spark_kafka_native.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.support.broker_driver import BrokerDriver


def test_pauses_end_one_by_one() -> None:
    pauses = Pauses()
    assert not pauses
    for scope in (Scope(topic="t"), Scope(topic="t"), Scope(topic="t", partition=1)):
        pauses.pause(scope)
    assert [pauses.cover("t", index) for index in range(2)] == [True, True]
    pauses.resume(Scope(topic="t"))
    assert [pauses.cover("t", index) for index in range(2)] == [False, True]
    pauses.resume(Scope(topic="u"))
    assert pauses
    pauses.pause(EVERYTHING)
    assert pauses.cover("u", 7)
    pauses.clear()
    assert not pauses


@pytest.mark.parametrize(("epoch", "goes_on"), [(-1, False), (0, False), (1, True), (7, True)])
def test_sessions_go_on_from_epoch_1(epoch: int, goes_on: bool) -> None:
    assert continues_session(FetchRequest(session_id=3, session_epoch=epoch)) is goes_on


def test_a_request_without_its_session_asks_for_the_same() -> None:
    topics = (FetchTopic(topic="t"),)
    request = FetchRequest(
        session_id=3, session_epoch=0, topics=topics, forgotten_topics_data=(ForgottenTopic(topic="u"),)
    )
    assert without_session(request) == FetchRequest(topics=topics)


def asked(*partitions: FetchPartition, topic: str = "t", topic_id: UUID | None = None) -> FetchRequest:
    if topic_id is not None:
        return FetchRequest(topics=(FetchTopic(topic_id=topic_id, partitions=partitions),))
    return FetchRequest(topics=(FetchTopic(topic=topic, partitions=partitions),))


def test_paused_partitions_are_taken_out_of_the_request(broker: BrokerDriver) -> None:
    broker.create("t", 2)
    pauses = Pauses()
    pauses.pause(Scope(topic="t", partition=0))
    both = (FetchPartition(partition=0), FetchPartition(partition=1))
    rest, nothing_new, paused = pauses.take_out(asked(*both), 11, broker.broker)
    assert rest == asked(both[1])
    assert [part.partition_index for part in nothing_new.responses[0].partitions] == [0]
    assert [str(partition.id) for partition in paused] == ["t-0"]
    topic_id = broker.broker.image.topics["t"].topic_id
    rest, nothing_new, _ = pauses.take_out(asked(both[0], topic_id=topic_id), 13, broker.broker)
    assert rest is None
    assert nothing_new.responses[0].topic_id == topic_id


def test_the_broker_answers_for_what_is_not_there_and_for_wrong_epochs(broker: BrokerDriver) -> None:
    broker.create("t")
    pauses = Pauses()
    pauses.pause(EVERYTHING)
    for request, version in (
        (asked(FetchPartition(partition=1)), 11),
        (asked(FetchPartition(partition=0), topic="v"), 11),
        (asked(FetchPartition(partition=0), topic_id=UUID(int=5)), 13),
        (asked(FetchPartition(partition=0, current_leader_epoch=7)), 11),
    ):
        assert pauses.take_out(request, version, broker.broker)[0] == request
