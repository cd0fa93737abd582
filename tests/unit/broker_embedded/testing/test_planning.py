"""Several faults on one request: each takes its part, what is left goes on."""

from typing import Any

from broker_embedded.testing.fields import Fields
from broker_embedded.testing.planning import Plan, strike
from broker_embedded.testing.refusals import refusal
from broker_embedded.testing.rules import Fault, Rule
from broker_embedded.testing.scopes import EVERYTHING, Scope
from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from spark_kafka_native.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from spark_kafka_native.protocol.schema import Request

PARTITIONS = tuple(PartitionProduceData(index=index, records=b"x") for index in range(3))
PRODUCE = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="t", partition_data=PARTITIONS),))


def fault(action: str = "fail", api: str = "Produce", **fields: Any) -> Fault:
    if action == "fail":
        fields.setdefault("error", "NOT_LEADER_OR_FOLLOWER")
    return Fault(len(fields), Rule.parse(Fields({"action": action, "api": api, **fields})))


def planned(*faults: Fault, request: Request[Any] = PRODUCE, client_id: str = "me") -> Plan:
    return strike(Plan(version=9, names={}, rest=request), faults, client_id)


def rest_of(plan: Plan) -> list[int]:
    return [part.index for part in plan.rest.topic_data[0].partition_data] if plan.rest else []  # type: ignore[attr-defined]  # a ProduceRequest


def codes(plan: Plan) -> dict[int, int]:
    """The error of each partition in the answer, the broker having served the rest."""
    served = None if plan.rest is None else refusal(plan.rest, 9, ErrorCode.NONE)
    answer: Any = plan.answer(served)
    return {part.index: part.error_code for topic in answer.responses for part in topic.partition_responses}


def test_without_faults_the_request_is_the_rest() -> None:
    plan = planned()
    assert plan.rest is PRODUCE
    assert codes(plan) == {0: 0, 1: 0, 2: 0}
    assert plan.struck == []


def test_each_fault_takes_its_part() -> None:
    plan = planned(fault(partition=0), fault(partition=2, error="REQUEST_TIMED_OUT"))
    assert rest_of(plan) == [1]
    assert codes(plan) == {0: 6, 1: 0, 2: 7}


def test_what_is_refused_is_not_there_for_the_next_fault() -> None:
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


def test_a_fault_that_does_not_strike_changes_nothing_but_counts() -> None:
    later, others = fault(on_call=2), fault(api="Fetch")
    elsewhere, stranger = fault(topic="u"), fault(client_id="you")
    plan = planned(later, others, elsewhere, stranger)
    assert plan.rest is PRODUCE
    assert [each.calls for each in (later, others, elsewhere, stranger)] == [1, 0, 0, 0]


def test_an_error_that_is_none_lets_the_request_pass() -> None:
    passing = fault(errors=["NONE", "REQUEST_TIMED_OUT"], error=None)
    assert planned(passing).rest is PRODUCE
    assert planned(passing).rest is None
    assert passing.is_spent


def test_errors_can_be_written_into_what_the_broker_says() -> None:
    plan = planned(fault(api="Metadata", error="LEADER_NOT_AVAILABLE"), request=MetadataRequest(topics=None))
    assert plan.rest == MetadataRequest(topics=None)
    assert plan.written == [(EVERYTHING, ErrorCode.LEADER_NOT_AVAILABLE)]
    answer: Any = plan.answer(MetadataResponse(topics=(MetadataResponseTopic(name="t"),)))
    assert answer.topics[0].error_code == 5
    assert plan.answer(None) is None


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
