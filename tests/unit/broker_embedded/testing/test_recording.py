import base64
import json
from typing import Any

import pytest

from broker_embedded._testing.fields import FieldError
from broker_embedded._testing.recording import RecordedRequest, Recorder
from spark_kafka_native._protocol.framing import request_frame
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.schema import Request
from tests.support.broker.driver import fetch_request, produce_request, to_bytes
from tests.support.records.sample_messages import each_api, sample, versions_of


def add(recorder: Recorder, request: Request[Any], version: int = 9, client_id: str = "me") -> list[int]:
    frame = to_bytes(request_frame(request, version, 1, client_id))[4:]
    return recorder.add(
        memoryview(bytearray(frame)), at_ms=5, api=type(request).api_name, version=version, client_id=client_id
    )


def test_requests_are_found_by_api_client_and_number() -> None:
    recorder = Recorder()
    add(recorder, produce_request("t", b"one"))
    add(recorder, produce_request("t", b"two"), client_id="you").append(3)
    add(recorder, fetch_request("t"))
    assert [each.number for each in recorder.find()] == [1, 2, 3]
    assert [each.number for each in recorder.find(api="Produce")] == [1, 2]
    assert [each.number for each in recorder.find(client_id="me", after=1)] == [3]
    (found,) = recorder.find(api="Produce", client_id="you")
    assert (found.at_ms, found.version, found.faults) == (5, 9, (3,))
    assert found.request == produce_request("t", b"two")
    assert recorder.counts == {"Produce": 2, "Fetch": 1}


def test_unknown_api_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(FieldError, match="'Prduce' is not an API of Kafka; did you mean Produce"):
        list(Recorder().find(api="Prduce"))


def test_the_buffer_that_a_request_came_in_may_be_used_again() -> None:
    recorder = Recorder()
    frame = bytearray(to_bytes(request_frame(produce_request("t", b"mine"), 9, 1, "me"))[4:])
    recorder.add(memoryview(frame), at_ms=0, api="Produce", version=9, client_id="me")
    frame[:] = bytes(len(frame))
    (found,) = recorder.find()
    assert found.request == produce_request("t", b"mine")


def test_the_oldest_go_first() -> None:
    few = Recorder(most=2)
    for number in range(5):
        add(few, produce_request("t", b"%d" % number))
    assert [each.number for each in few.find()] == [4, 5]
    assert few.counts == {"Produce": 5}
    small = Recorder(most_bytes=2500)
    for _ in range(5):
        add(small, produce_request("t", b"x" * 1000))
    assert [each.number for each in small.find()] == [4, 5]
    add(small, produce_request("t", b"x" * 5000))
    assert [each.number for each in small.find()] == [6]


def test_a_capacity_of_0_records_no_request() -> None:
    recorder = Recorder(most=0)
    add(recorder, fetch_request("t")).append(1)
    assert list(recorder.find()) == []
    assert recorder.counts == {"Fetch": 1}


def test_forgetting_keeps_the_numbers() -> None:
    recorder = Recorder(most_bytes=2500)
    add(recorder, produce_request("t", b"x" * 2000))
    recorder.clear()
    assert (list(recorder.find()), recorder.counts) == ([], {})
    add(recorder, fetch_request("t"))
    assert [each.number for each in recorder.find()] == [2]


@each_api
def test_every_request_passes_through_json(api: type[Request[Any]]) -> None:
    for version in versions_of(api):
        recorder = Recorder()
        request = sample(api, version)
        add(recorder, request, version)
        (recorded,) = recorder.find()
        read = RecordedRequest.from_fields(json.loads(json.dumps(recorded.to_fields())))
        assert read == recorded
        assert read.request == request


def test_json_has_the_fields_of_the_version() -> None:
    recorder = Recorder()
    add(recorder, produce_request("t", b"\xff"))
    (recorded,) = recorder.find()
    fields = recorded.to_fields()
    assert fields["request"]["topic_data"] == [
        {"name": "t", "partition_data": [{"index": 0, "records": base64.b64encode(b"\xff").decode()}]}
    ]
    add(recorder, FetchRequest(), 4)
    assert "session_id" not in list(recorder.find())[-1].to_fields()["request"]
