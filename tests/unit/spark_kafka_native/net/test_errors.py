import copy
import pickle

import pytest

from spark_kafka_native.net.address import HostPort
from spark_kafka_native.net.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ConnectionLost,
    RequestTimeout,
    Throttled,
    UnsupportedApiVersion,
)
from spark_kafka_native.protocol.errors import KafkaError

HERE = HostPort("broker", 9092)

ERRORS: list[tuple[KafkaError, bool, str]] = [
    (BrokerUnreachable({HERE: "refused"}, "for Fetch", "silence"), True, "broker:9092: refused), after silence"),
    (ConnectionLost(HERE, "the broker closed the connection"), True, "broker:9092: the broker closed"),
    (RequestTimeout(HERE, "Fetch", 30_000), True, "broker:9092: no answer to Fetch within 30000 ms"),
    (Throttled(HERE, "Fetch", 700), True, "broker:9092: the broker throttles this client for 700 ms more"),
    (UnsupportedApiVersion(HERE, "Fetch", "versions 4-18", "versions 0-2"), False, "broker:9092: Fetch"),
    (AuthenticationFailed(HERE, "sasl.jaas.config", "no"), False, "broker:9092: sasl.jaas.config: no"),
]


@pytest.mark.parametrize(("error", "retriable", "text"), ERRORS, ids=lambda value: type(value).__name__)
def test_errors_say_what_they_are_about_and_survive_the_way_to_another_process(
    error: KafkaError, retriable: bool, text: str
) -> None:
    assert error.retriable is retriable
    assert text in str(error)
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is type(error)
        assert str(copied) == str(error)
        assert copied.code is error.code
        assert {name: str(value) for name, value in vars(copied).items()} == {n: str(v) for n, v in vars(error).items()}
