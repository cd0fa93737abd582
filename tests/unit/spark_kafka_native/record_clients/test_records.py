from typing import Any

import pytest

from spark_kafka_native._record_clients.records import ProducerRecord


@pytest.mark.parametrize(
    "record",
    [
        ProducerRecord("t"),
        ProducerRecord("t", b"v", b"k", 0, 0),
        ProducerRecord("t", object(), object(), 2**31 - 1, 2**63 - 1, [("a", None), ("b", b"x")]),
    ],
)
def test_records_that_can_be_sent_pass(record: ProducerRecord) -> None:
    record.check()


@pytest.mark.parametrize(
    ("fields", "kind", "problem"),
    [
        ({"topic": b"t"}, TypeError, "topic must be str, not bytes"),
        ({"partition": "0"}, TypeError, "topic t: partition must be int or None, not str"),
        ({"partition": True}, TypeError, "topic t: partition must be int or None, not bool"),
        ({"partition": -1}, ValueError, "topic t: partition -1 is out of bounds"),
        ({"partition": 2**31}, ValueError, "partition 2147483648 is out of bounds"),
        ({"timestamp_ms": 1.5}, TypeError, "topic t: timestamp_ms must be int or None, not float"),
        ({"timestamp_ms": -1}, ValueError, "topic t: timestamp_ms -1 is out of bounds"),
        ({"headers": ["a"]}, TypeError, "topic t: a header must be a tuple of name and value, not 'a'"),
        ({"headers": [(b"a", b"b")]}, TypeError, "topic t: the name of a header must be str, not bytes"),
        ({"headers": [("a", "b")]}, TypeError, "topic t: the value of header 'a' must be bytes or None, not str"),
        ({"headers": {"a": b"b"}}, TypeError, "topic t: headers must be a sequence of tuples, not dict"),
        ({"headers": None}, TypeError, "topic t: headers must be a sequence of tuples, not NoneType"),
    ],
)
def test_a_wrong_field_is_an_error_that_names_it(fields: dict[str, Any], kind: type[Exception], problem: str) -> None:
    with pytest.raises(kind, match=problem):
        ProducerRecord(**{"topic": "t", **fields}).check()
