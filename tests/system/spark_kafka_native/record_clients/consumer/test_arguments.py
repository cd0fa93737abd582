"""Wrong arguments of the simple consumer are errors before anything is sent."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from spark_kafka_native.clients import FetchRequest, OffsetAndMetadata, SimpleConsumer
from tests.support.scripted.cluster import ScriptedCluster
from tests.system.spark_kafka_native.record_clients.consumer.conftest import OpenConsumer

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}
WRONG: Any = 1.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("t", 0, -1), ValueError, "t-0: offset is -1; offsets_before returns the first and the last offset"),
        (("t", 0, -3), ValueError, "t-0: offset -3 is out of bounds: 0 to 9223372036854775807"),
        (("t", 0, 2**63), ValueError, "offset 9223372036854775808 is out of bounds"),
        (("t", -1, 0), ValueError, "partition -1 is out of bounds"),
        (("t", 0, 0, 0), ValueError, "max_bytes 0 is out of bounds: 1 to 2147483647"),
        (("", 0, 0), ValueError, "topic name is empty"),
        (("a\ud800", 0, 0), ValueError, "has characters other than ASCII letters"),
        ((b"t", 0, 0), TypeError, "topic must be str, not bytes"),
        (("t", True, 0), TypeError, "partition must be int, not bool"),
        (("t", 0, "5"), TypeError, "offset must be int, not str"),
    ],
)
def test_wrong_arguments_are_errors_before_anything_is_sent(
    brokers: ScriptedCluster,
    open_consumer: OpenConsumer,
    arguments: Sequence[Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        open_consumer().fetch(FetchRequest(*arguments))
    assert brokers.received == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda consumer: consumer.multifetch(["t"]), "a request must be a FetchRequest, not str"),
        (lambda consumer: consumer.multifetch(FetchRequest("t", 0, 0)), "requests must be a list, not FetchRequest"),
        (lambda consumer: consumer.metadata("t"), "topics must be a list, not str"),
        (lambda consumer: consumer.metadata([1]), "topic must be str, not int"),
        (lambda consumer: consumer.find_coordinator(None), "group_id must be str, not NoneType"),
        (lambda consumer: consumer.find_coordinator("a\ud800"), "group_id 'a\\ud800' is no text"),
        (lambda consumer: consumer.committed_offsets("g", ("t", 0)), "must be a tuple of topic and number, not 't'"),
        (
            lambda consumer: consumer.committed_offsets("g", [("t", 0, 1)]),
            "number, not ('t', 0, 1)",
        ),
        (lambda consumer: consumer.commit_offsets("g", [("t", 0)]), "offsets must be a mapping"),
        (lambda consumer: consumer.commit_offsets("g", {"t": 5}), "must be a tuple of topic and number, not 't'"),
        (lambda consumer: consumer.commit_offsets("g", {("t", 0): -1}), "offset -1 is out of bounds"),
        (
            lambda consumer: consumer.commit_offsets("g", {("t", 0): OffsetAndMetadata(offset=1, leader_epoch=2**40)}),
            "leader_epoch 1099511627776 is out of bounds",
        ),
        (
            lambda consumer: consumer.commit_offsets("g", {("t", 0): OffsetAndMetadata(offset=1, metadata=WRONG)}),
            "metadata must be str, not float",
        ),
        (lambda consumer: consumer.offsets_before("t", 0, -1, 0), "max_offsets 0 is out of bounds"),
        (lambda consumer: consumer.offsets_before("t", 0, -3), "time_ms -3 is out of bounds"),
        (lambda consumer: SimpleConsumer(SERVERS, broker_id=WRONG), "broker_id must be int, not float"),
        (lambda consumer: SimpleConsumer(SERVERS, broker_id=-1), "broker_id -1 is out of bounds"),
    ],
)
def test_other_wrong_arguments_are_errors_that_name_them(
    brokers: ScriptedCluster, open_consumer: OpenConsumer, call: Callable[[Any], object], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        call(open_consumer())
    assert brokers.received == []
