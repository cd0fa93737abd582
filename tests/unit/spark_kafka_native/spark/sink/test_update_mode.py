"""Update mode by way of foreachBatch: what the function asks of Spark. Real queries: tests/interop/sink."""

import pickle
from typing import Any

import pytest

from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.sink.update_mode import KafkaUpdates, write_updates

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}


class NotingFrame:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    @property
    def write(self) -> "NotingFrame":
        return self

    def __getattr__(self, name: str) -> Any:
        def note(*args: object, **options: object) -> "NotingFrame":
            self.calls.append((name, options or args))
            return self

        return note


@pytest.mark.feature("sink.update")
def test_rows_are_appended_with_the_options() -> None:
    frame: Any = NotingFrame()
    function = pickle.loads(pickle.dumps(write_updates(SERVERS, topic="t", includeTimestamp=True)))
    function(frame, 7)
    assert frame.calls == [
        ("format", ("pykafka",)),
        ("mode", ("append",)),
        ("options", SERVERS | {"topic": "t", "includeTimestamp": "True"}),
        ("save", ()),
    ]


@pytest.mark.feature("sink.update")
def test_bad_options_fail_before_the_query_starts() -> None:
    with pytest.raises(OptionError, match=r"kafka.bootstrap.servers"):
        write_updates(topic="t")
    with pytest.raises(OptionError, match=r"did you mean 'topic'"):
        write_updates(SERVERS, topics="t")


def test_repr_of_updates_has_no_option_values() -> None:
    shown = repr(write_updates(SERVERS | {"kafka.client.id": "s3cret"}))
    assert shown == "KafkaUpdates(kafka.bootstrap.servers, kafka.client.id)"
    assert isinstance(write_updates(SERVERS), KafkaUpdates)


def test_exactly_once_is_refused() -> None:
    options = {"kafka.bootstrap.servers": "broker:9092", "topic": "t", "delivery.guarantee": "exactly-once"}
    with pytest.raises(OptionError, match=r"'delivery\.guarantee': cannot be exactly-once here"):
        write_updates(options | {"transactional.id.prefix": "orders"})
