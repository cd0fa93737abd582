from typing import Any
from uuid import UUID

import pytest

from broker_embedded._testing.fetches import Pauses, continues_session, without_session
from broker_embedded._testing.fields import Fields
from broker_embedded._testing.planning import RequestPlan, apply_faults
from broker_embedded._testing.refusals import refusal
from broker_embedded._testing.rules import ActiveFault, Rule
from broker_embedded._testing.scopes import EVERYTHING, Scope
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native._protocol.schema import Request
from tests.support.broker.driver import BrokerDriver

PARTITIONS = tuple(PartitionProduceData(index=index, records=b"x") for index in range(3))
PRODUCE = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="t", partition_data=PARTITIONS),))


def fault(action: str = "fail", api: str = "Produce", **fields: Any) -> ActiveFault:
    if action == "fail":
        fields.setdefault("error", "NOT_LEADER_OR_FOLLOWER")
    return ActiveFault(len(fields), Rule.parse(Fields({"action": action, "api": api, **fields})))


def planned(*faults: ActiveFault, request: Request[Any] = PRODUCE, client_id: str = "me") -> RequestPlan:
    return apply_faults(RequestPlan(version=9, names={}, rest=request), faults, client_id)


def rest_of(plan: RequestPlan) -> list[int]:
    return [part.index for part in plan.rest.topic_data[0].partition_data] if plan.rest else []  # type: ignore[attr-defined]  # a ProduceRequest


def codes(plan: RequestPlan) -> dict[int, int]:
    """The error of each partition in the response, the broker having served the rest."""
    served = None if plan.rest is None else refusal(plan.rest, 9, ErrorCode.NONE)
    response: Any = plan.response(served)
    return {part.index: part.error_code for topic in response.responses for part in topic.partition_responses}


def test_without_faults_the_request_is_the_rest() -> None:
    plan = planned()
    assert plan.rest is PRODUCE
    assert codes(plan) == {0: 0, 1: 0, 2: 0}
    assert plan.fault_ids == []


def test_each_fault_takes_its_part() -> None:
    plan = planned(fault(partition=0), fault(partition=2, error="REQUEST_TIMED_OUT"))
    assert rest_of(plan) == [1]
    assert codes(plan) == {0: 6, 1: 0, 2: 7}


def test_a_refused_part_is_not_seen_by_the_next_fault() -> None:
    second = fault(partition=0, error="REQUEST_TIMED_OUT")
    plan = planned(fault(partition=0), second)
    assert codes(plan) == {0: 6, 1: 0, 2: 0}
    assert second.calls == 0
    everything, after = fault(), fault("drop")
    plan = planned(everything, after)
    assert plan.rest is None
    assert plan.dropped is None
    assert (after.calls, codes(plan)) == (0, {0: 6, 1: 6, 2: 6})


def test_delays_add_up_and_a_drop_is_the_end() -> None:
    last = fault("delay", ms=1)
    plan = planned(
        fault("delay", ms=20),
        fault("delay", ms=5),
        fault("delay", ms=7, when="after"),
        fault("drop", when="after"),
        last,
    )
    assert (plan.delay_before_ms, plan.delay_after_ms, plan.dropped) == (25, 7, "after")
    assert last.calls == 0
    assert plan.rest is PRODUCE


def test_a_fault_that_does_not_apply_changes_nothing_but_counts() -> None:
    later, others = fault(on_call=2), fault(api="Fetch")
    elsewhere, stranger = fault(topic="u"), fault(client_id="you")
    assert planned(later, others, elsewhere, stranger).rest is PRODUCE
    assert [each.calls for each in (later, others, elsewhere, stranger)] == [1, 0, 0, 0]


def test_an_error_that_is_none_lets_the_request_pass() -> None:
    passing = fault(errors=["NONE", "REQUEST_TIMED_OUT"], error=None)
    assert planned(passing).rest is PRODUCE
    assert planned(passing).rest is None
    assert passing.is_spent


def test_errors_can_be_written_into_the_brokers_response() -> None:
    plan = planned(fault(api="Metadata", error="LEADER_NOT_AVAILABLE"), request=MetadataRequest(topics=None))
    assert plan.rest == MetadataRequest(topics=None)
    assert plan.written == [(EVERYTHING, ErrorCode.LEADER_NOT_AVAILABLE)]
    response: Any = plan.response(MetadataResponse(topics=(MetadataResponseTopic(name="t"),)))
    assert response.topics[0].error_code == 5
    assert plan.response(None) is None


def test_a_part_can_be_refused_without_a_fault() -> None:
    plan = planned()
    assert plan.concerns(Scope(topic="t"))
    assert not plan.concerns(Scope(topic="u"))
    plan.refuse(Scope(topic="u"), ErrorCode.REQUEST_TIMED_OUT)
    assert plan.rest is PRODUCE
    plan.refuse(Scope(topic="t"), ErrorCode.UNKNOWN_SERVER_ERROR, "why")
    assert codes(plan) == {0: -1, 1: -1, 2: -1}
    assert not plan.concerns(EVERYTHING)
    plan.refuse(EVERYTHING, ErrorCode.REQUEST_TIMED_OUT)
    assert len(plan.refused) == 1


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


@pytest.mark.parametrize(("epoch", "continues"), [(-1, False), (0, False), (1, True), (7, True)])
def test_a_session_continues_from_epoch_1(epoch: int, continues: bool) -> None:
    assert continues_session(FetchRequest(session_id=3, session_epoch=epoch)) is continues


def test_a_request_without_its_session_has_the_same_partitions() -> None:
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
    topic_id = broker.topic_id("t")
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
