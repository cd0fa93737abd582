import pickle

import pytest

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.timing import timing_of
from spark_kafka_native._spark.options.exactly_once import exactly_once
from spark_kafka_native._spark.options.parsed import ExactlyOnce, SinkOptions
from spark_kafka_native._spark.options.parsing import parse_sink_options

GIVEN = {
    "kafka.bootstrap.servers": "broker:9092",
    "topic": "t",
    "delivery.guarantee": "exactly-once",
    "transactional.id.prefix": "orders",
}


def options(**more: str) -> SinkOptions:
    return parse_sink_options(GIVEN | more)


def chosen(**more: str) -> ExactlyOnce:
    found = options(**more).exactly_once
    assert found is not None
    return found


@pytest.mark.feature("sink.exactlyOnceOptions")
def test_default_delivery_guarantee_is_at_least_once(caplog: pytest.LogCaptureFixture) -> None:
    servers = {"kafka.bootstrap.servers": "broker:9092"}
    assert parse_sink_options(servers).exactly_once is None
    assert parse_sink_options(servers | {"delivery.guarantee": "At-Least-Once"}).exactly_once is None
    client = ClientConfig.parse({"bootstrap.servers": "broker:9092"})
    assert exactly_once({}, client, {}) is None
    assert caplog.messages == []
    parse_sink_options(servers | {"kafka.transaction.timeout.ms": "70"})
    assert "'kafka.transaction.timeout.ms' has no effect without 'delivery.guarantee'" in caplog.text
    for name, value in (("transactional.id.prefix", "p"), ("transaction.recovery.time.ms", "1000")):
        with pytest.raises(OptionError, match=f"'{name}': requires option 'delivery.guarantee' = exactly-once"):
            parse_sink_options(servers | {name: value})


@pytest.mark.feature("sink.exactlyOnceOptions")
def test_default_transaction_timeout_is_the_brokers_limit() -> None:
    found = chosen()
    assert found.names == Names(prefix="orders")
    assert found.timing.transaction_timeout_ms == 900_000
    assert found.timing.decision_timeout_ms == 30_000
    assert found.timing.margin_ms == 300_000 + 30_000 + 10_000
    assert pickle.loads(pickle.dumps(options())) == options()


@pytest.mark.parametrize(
    ("timeout_ms", "recovery_ms"), [(30_000, 1), (30_000, 10_000), (60_000, 40_000), (900_000, 880_000), (2**31, 1)]
)
def test_timing_has_time_for_writing_and_for_a_restart(timeout_ms: int, recovery_ms: int) -> None:
    timing = timing_of(timeout_ms, recovery_ms)
    assert timing.margin_ms - timing.decision_timeout_ms - 10_000 == recovery_ms
    assert timing.decision_timeout_ms >= 5_000
    assert timeout_ms - timing.margin_ms >= 5_000


def test_default_recovery_time_is_a_third_of_a_short_timeout() -> None:
    assert chosen(**{"kafka.transaction.timeout.ms": "30000"}).timing == timing_of(30_000, 10_000)
    given = chosen(**{"kafka.transaction.timeout.ms": "60000", "transaction.recovery.time.ms": "40000"})
    assert given.timing == timing_of(60_000, 40_000)


@pytest.mark.feature("sink.exactlyOnceOptions")
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"delivery.guarantee": "exactly once"}, "'exactly once' is not one of at-least-once, exactly-once"),
        ({"transactional.id.prefix": ""}, "transactional.id.prefix': prefix '' is invalid: it is empty"),
        ({"transactional.id.prefix": "a b"}, "'a b.decisions' has characters other than"),
        ({"transactional.id.prefix": "p" * 240}, "the limit is 249"),
        (
            {"kafka.transaction.timeout.ms": "29999"},
            "29999 is less than 30000, the least value with 'delivery.guarantee' = exactly-once",
        ),
        ({"kafka.transaction.timeout.ms": "0"}, "out of bounds"),
        (
            {"transaction.recovery.time.ms": "880001"},
            "880001 leaves less than 20000 ms of 'kafka.transaction.timeout.ms' = 900000",
        ),
        ({"kafka.acks": "1"}, "'kafka.acks': must be all with 'delivery.guarantee' set to exactly-once"),
        ({"kafka.retries": "0"}, "'kafka.retries': must not be 0"),
        ({"kafka.enable.idempotence": "false"}, "'kafka.enable.idempotence': must be true"),
        ({"asyncProgressTrackingEnabled": " TRUE"}, "'asyncProgressTrackingEnabled': cannot be true"),
        ({"kafka.transactional.id": "mine"}, "use options 'delivery.guarantee' and 'transactional.id.prefix'"),
    ],
)
def test_what_cannot_be(more: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError) as caught:
        options(**more)
    assert says in str(caught.value)


def test_transactional_id_prefix_is_required() -> None:
    without = {name: value for name, value in GIVEN.items() if name != "transactional.id.prefix"}
    with pytest.raises(
        OptionError, match=r"'transactional.id.prefix': is required with .* and no other query may use it"
    ):
        parse_sink_options(without)


def test_options_that_agree_with_exactly_once() -> None:
    assert chosen(
        **{"asyncProgressTrackingEnabled": "false", "kafka.acks": "all", "transactional.id.prefix": " orders "}
    )
    assert len(chosen(**{"transactional.id.prefix": "p" * 239}).names.decisions_topic) == 249
