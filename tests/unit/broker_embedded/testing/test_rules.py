from typing import Any

import pytest

from broker_embedded._testing.fields import FieldError, Fields
from broker_embedded._testing.rules import ActiveFault, Rule
from broker_embedded._testing.scopes import Scope
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.produce import ProduceRequest


def rule(**fields: Any) -> Rule:
    return Rule.parse(Fields({"action": "drop", "api": "Produce", **fields}))


def failing(**fields: Any) -> Rule:
    return rule(action="fail", **fields)


def affected_calls(parsed: Rule, calls: int) -> list[int]:
    """The calls that fail, counted from 1."""
    fault = ActiveFault(1, parsed)
    return [number for number in range(1, calls + 1) if fault.count_call()]


def test_a_rule_is_what_its_fields_say() -> None:
    assert failing(
        error="REQUEST_TIMED_OUT", topic="t", partition=0, client_id="me", times=2, message="slow", seed=5
    ) == Rule(
        action="fail",
        api="Produce",
        errors=(ErrorCode.REQUEST_TIMED_OUT,),
        message="slow",
        scope=Scope(topic="t", partition=0),
        client_id="me",
        times=2,
        seed=5,
    )
    assert rule(action="delay", ms=0, when="after", api="*", group="g") == Rule(
        action="delay", api="*", when="after", scope=Scope(group="g")
    )
    assert failing(error=7).errors == (ErrorCode.REQUEST_TIMED_OUT,)
    assert failing(error=-1).errors == (ErrorCode.UNKNOWN_SERVER_ERROR,)


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "fail", "api": "Produce", "error": "REQUEST_TIMED_OUT", "times": 2, "topic": "t", "partition": 0},
        {"action": "fail", "api": "Heartbeat", "errors": ["NONE", "REBALANCE_IN_PROGRESS"], "times": 2, "group": "g"},
        {"action": "delay", "api": "Fetch", "ms": 0},
        {"action": "delay", "api": "*", "ms": 500, "when": "after", "client_id": "me"},
        {"action": "drop", "api": "*", "on_call": 3, "times": 1},
        {"action": "drop", "api": "*", "probability": 0.5, "seed": 9},
    ],
)
def test_a_rule_can_be_written_down_and_read_again(fields: dict[str, Any]) -> None:
    parsed = Rule.parse(Fields(fields))
    assert parsed.to_fields() == fields
    assert Rule.parse(Fields(parsed.to_fields())) == parsed


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"action": "explode"}, "action: 'explode' is not one of fail, delay, drop"),
        ({"action": None}, "action: the field is missing"),
        ({"api": "produce"}, r"api: 'produce' is not an API of Kafka; did you mean Produce\?"),
        ({"api": "Nothing like it"}, "api: 'Nothing like it' is not an API of Kafka$"),
        ({"api": None}, "api: the field is missing"),
        ({"action": "fail"}, "error: the field error or errors is missing"),
        (
            {"action": "fail", "error": "NOT_LEADER"},
            r"error: 'NOT_LEADER' is not an error of Kafka; did you mean NOT_LEADER_",
        ),
        ({"action": "fail", "error": 4711}, "error: 4711 is not an error of Kafka"),
        ({"action": "fail", "error": True}, "error: True is not an error of Kafka"),
        ({"action": "fail", "error": "NONE", "errors": ["NONE"]}, "error: only one of error and errors is allowed"),
        ({"action": "fail", "errors": []}, r"errors: \[\] is not a list of errors"),
        ({"action": "fail", "errors": "NONE"}, "errors: 'NONE' is not a list of errors"),
        ({"action": "fail", "errors": ["NONE", "NONE"], "times": 3}, "times: 2 errors are given one after the other"),
        ({"action": "fail", "error": "NONE", "ms": 3}, "ms: a fault of the kind fail has no such field"),
        ({"action": "fail", "error": "NONE", "when": "after"}, "when: a fault of the kind fail"),
        ({"action": "fail", "api": "ApiVersions", "error": "UNSUPPORTED_VERSION"}, r"error: .*as\.version"),
        ({"action": "delay"}, "ms: the field is missing"),
        ({"action": "delay", "ms": -1}, "ms: -1 is not between 0 and"),
        ({"error": "NONE"}, "error: a fault of the kind drop has no such field"),
        ({"when": "during"}, "when: 'during' is not one of before, after"),
        ({"times": 0}, "times: 0 is not between 1 and"),
        ({"on_call": 0}, "on_call: 0 is not between 1 and"),
        ({"probability": 2}, "probability: must be a number greater than 0 and at most 1, not 2"),
        ({"partition": -1}, "partition: -1 is not between 0 and"),
        ({"group": "g"}, "group: Produce is not about single groups"),
        ({"api": "Heartbeat", "topic": "t"}, "topic: Heartbeat is not about single topics"),
        ({"api": "CreateTopics", "partition": 0}, "partition: CreateTopics is not about single partitions"),
        ({"client": "me"}, "client: a fault of the kind drop has no such field"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(FieldError, match=f"^{problem}"):
        rule(**fields)


def test_a_rule_matches_api_and_client_id() -> None:
    assert rule().is_about(ProduceRequest, "me")
    assert not rule().is_about(FetchRequest, "me")
    assert rule(api="*").is_about(FetchRequest, "me")
    assert rule(client_id="me").is_about(ProduceRequest, "me")
    assert not rule(client_id="me").is_about(ProduceRequest, "you")
    assert rule(api="*").is_about(ApiVersionsRequest, "me")
    assert not failing(api="*", error=-1).is_about(ApiVersionsRequest, "me")
    assert failing(api="ApiVersions", error=-1).is_about(ApiVersionsRequest, "me")


def test_when_a_fault_applies() -> None:
    assert affected_calls(rule(), 4) == [1, 2, 3, 4]
    assert affected_calls(rule(times=2), 4) == [1, 2]
    assert affected_calls(rule(on_call=3), 5) == [3]
    assert affected_calls(rule(on_call=2, times=3), 6) == [2, 3, 4]
    assert affected_calls(failing(errors=["NONE", "NONE", "NONE"]), 5) == [1, 2, 3]


def test_a_probability_applies_to_the_same_calls_in_every_run() -> None:
    often, again, other = (affected_calls(rule(probability=0.3, seed=seed), 1000) for seed in (1, 1, 2))
    assert often == again
    assert often != other
    assert 200 < len(often) < 400
    assert affected_calls(rule(probability=0.3, times=2, seed=1), 1000) == often[:2]


def test_errors_are_given_one_after_the_other() -> None:
    fault = ActiveFault(1, failing(errors=["REQUEST_TIMED_OUT", "NONE", 6]))
    given = []
    while not fault.is_spent:
        assert fault.count_call()
        given.append(fault.error)
    assert given == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert not fault.count_call()
    same = ActiveFault(2, failing(error=7, times=3))
    assert [(same.count_call(), same.error) for _ in range(3)] == [(True, ErrorCode.REQUEST_TIMED_OUT)] * 3


def test_a_fault_has_its_counts() -> None:
    fault = ActiveFault(4, rule(on_call=2))
    for _ in range(3):
        fault.count_call()
    assert fault.to_fields() == {
        "id": 4,
        "action": "drop",
        "api": "Produce",
        "on_call": 2,
        "times": 1,
        "calls": 3,
        "hits": 1,
        "spent": True,
    }
