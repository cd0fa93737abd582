import dataclasses
import pickle
import re
from collections.abc import Mapping

import pytest

from spark_kafka_native._client import config as config_module
from spark_kafka_native._client.config import PROPERTIES, READ_COMMITTED, ClientConfig
from spark_kafka_native._client.java_properties import DEPARTURES, REFUSED, WITHOUT_EFFECT
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._records.compression import CompressionType

SERVERS = {"bootstrap.servers": "a:1,b:2"}


def parse(**options: object) -> ClientConfig:
    return ClientConfig.parse(SERVERS | {name.replace("_", "."): value for name, value in options.items()})


def refusal(options: Mapping[str, object]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        ClientConfig.parse(options)
    assert caught.value.option in str(caught.value)
    return caught.value


def test_bootstrap_servers_are_the_only_required_property() -> None:
    config = ClientConfig.parse(SERVERS)
    assert config == dataclasses.replace(
        ClientConfig(bootstrap_servers=(HostPort("a", 1), HostPort("b", 2))), given=frozenset({"bootstrap.servers"})
    )
    assert config.enable_idempotence
    assert config.acks == -1
    assert config.client_name == "spark-kafka-native"


def test_every_field_that_can_be_set_is_a_property_with_bounds_and_a_meaning() -> None:
    fields = {field.name.replace("_", ".") for field in dataclasses.fields(ClientConfig)}
    assert fields - {"given", "option.prefix", "servers.option"} == set(PROPERTIES)
    for declared in PROPERTIES.values():
        assert declared.doc.endswith(".") or declared.doc.endswith("...")
        assert declared.type.legal


def test_strings_as_spark_hands_them_over() -> None:
    config = parse(
        acks="1",
        enable_idempotence="false",
        isolation_level="read_committed",
        compression_type="zstd",
        max_in_flight_requests_per_connection="7",
        check_crcs="FALSE",
        client_id="me",
    )
    assert (config.acks, config.enable_idempotence, config.isolation_level) == (1, False, READ_COMMITTED)
    assert (config.compression_type, config.max_in_flight_requests_per_connection) == (CompressionType.ZSTD, 7)
    assert (config.check_crcs, config.client_name) == (False, "me")
    assert config.given == {"bootstrap.servers", "acks", "enable.idempotence", "isolation.level", "compression.type",
                            "max.in.flight.requests.per.connection", "check.crcs", "client.id"}  # fmt: skip


def test_a_configuration_is_a_plain_value() -> None:
    config = parse(linger_ms=7)
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(parse(linger_ms=7)) == hash(config)
    error = refusal({})
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_servers_are_required() -> None:
    assert refusal({}).option == "bootstrap.servers"
    assert "is required" in str(refusal({"acks": "1"}))


@pytest.mark.parametrize("servers", ["a", "a:1,b", "::1:9092", " , ", "a:70000", "a b://a:1"])
def test_bad_servers_name_the_option(servers: str) -> None:
    assert refusal({"bootstrap.servers": servers}).option == "bootstrap.servers"


@pytest.mark.feature("client.unknown")
@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("bootstrap.server", "bootstrap.servers"),
        ("request.timeout", "request.timeout.ms"),
        ("compresion.type", "compression.type"),
        ("session.timeout", "session.timeout.ms"),
    ],
)
def test_unknown_names_are_errors_with_the_nearest_known_one(name: str, nearest: str) -> None:
    error = refusal(SERVERS | {name: "1"})
    assert error.option == name
    assert f"did you mean {nearest}?" in error.message


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    assert refusal(SERVERS | {"zzz": "1"}).message == "is not a Kafka client property"


def test_names_are_folded_and_must_not_come_twice() -> None:
    assert ClientConfig.parse({"Bootstrap.Servers": "a:1", " ACKS ": "1"}).acks == 1
    error = refusal(SERVERS | {"linger.ms": "1", "Linger.MS": "2"})
    assert error.option == "linger.ms"
    assert "'linger.ms'" in error.message
    assert "'Linger.MS'" in error.message


@pytest.mark.parametrize("protocol", ["TLS", "SASL", ""])
def test_protocols_that_kafka_does_not_have(protocol: str) -> None:
    error = refusal(SERVERS | {"security.protocol": protocol})
    assert str(error) == (f"security.protocol: {protocol!r} is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")


def test_plaintext_in_any_case_is_fine() -> None:
    assert parse(security_protocol="plaintext").security_protocol == "PLAINTEXT"


SECRETS = {
    "ssl.truststore.password": "hunter2",
    "ssl.truststore.certificates": "hunter2",
    "ssl.keystore.password": "hunter2",
    "ssl.keystore.key": "hunter2",
    "ssl.keystore.certificate.chain": "hunter2",
    "ssl.key.password": "hunter2",
    "sasl.jaas.config": "hunter2",
    "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
}


@pytest.mark.feature("security.secrets")
def test_secrets_are_pickled_and_not_shown() -> None:
    config = ClientConfig.parse(SERVERS | SECRETS)
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(dataclasses.asdict(config))
    assert pickle.loads(pickle.dumps(config)) == config
    assert config.sasl_jaas_config is not None
    assert config.sasl_jaas_config.reveal() == "hunter2"
    assert hash(config) == hash(ClientConfig.parse(SERVERS | SECRETS))
    assert config != ClientConfig.parse(SERVERS | SECRETS | {"ssl.key.password": "other"})


@pytest.mark.feature("security.secrets")
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("name", SECRETS)
def test_secrets_do_not_show_in_errors(name: str, protocol: str) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"):
        options = SERVERS | {name: SECRETS[name], "security.protocol": protocol, "sasl.mechanism": mechanism}
        text = ""
        try:
            ClientConfig.parse(options)
        except ConfigError as error:
            text = f"{error} {error!r} {error.__cause__!r} {pickle.dumps(error)!r}"
        assert "hunter2" not in text


@pytest.mark.parametrize(
    "name", ["transaction.two.phase.commit.enable", "ssl.provider", "value.serializer", "key.deserializer"]
)
def test_refused_properties_have_a_reason(name: str) -> None:
    assert "is not supported: " in refusal(SERVERS | {name: "x"}).message


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log, as if no warning was logged in this process yet."""
    config_module._warn.cache_clear()
    return caplog


def test_java_properties_without_effect_are_accepted_with_one_warning(warnings: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        config = ClientConfig.parse(SERVERS | {"session.timeout.ms": "45000", "metric.reporters": "x"})
    assert config == ClientConfig.parse(SERVERS)
    assert [message.split()[2] for message in warnings.messages] == ["session.timeout.ms", "metric.reporters"]


def test_security_properties_without_a_protocol_are_accepted_with_one_warning(
    warnings: pytest.LogCaptureFixture,
) -> None:
    options = SERVERS | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'PlainLoginModule required username="alice";'}
    for _ in range(3):
        assert ClientConfig.parse(options, option_prefix="kafka.").security_protocol == "PLAINTEXT"
    (message,) = warnings.messages
    assert message.startswith("kafka.security.protocol is not set, so it is PLAINTEXT, and these options ")
    assert message.endswith(": kafka.sasl.jaas.config, kafka.sasl.mechanism")
    warnings.clear()
    ClientConfig.parse(options | {"security.protocol": "PLAINTEXT"})
    assert warnings.messages == [], "it is set on purpose"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"acks": "2"}, "acks: '2' is not one of all, -1, 0, 1"),
        ({"request.timeout.ms": "x"}, "request.timeout.ms: 'x' is not an integer"),
        ({"fetch.max.bytes": "-1"}, "fetch.max.bytes: -1 is out of bounds; expected at least 0"),
        ({"compression.gzip.level": "0"}, "expected 1 to 9 or -1"),
        ({"compression.type": "brotli"}, "is not one of none, gzip, snappy, lz4, zstd"),
        ({"client.dns.lookup": "default"}, "is not one of use_all_dns_ips"),
        ({"delivery.timeout.ms": "1000"}, "1000 is less than linger.ms + request.timeout.ms = 30500"),
        ({"acks": "1", "enable.idempotence": "true"}, "acks: must be all with enable.idempotence=true"),
        ({"retries": "0", "enable.idempotence": "true"}, "retries: must not be 0"),
        ({"max.in.flight.requests.per.connection": "6"}, "must be at most 5 with enable.idempotence=true"),
    ],
)
def test_bad_and_contradictory_values(options: dict[str, str], complaint: str) -> None:
    assert complaint in str(refusal(SERVERS | options))


@pytest.mark.parametrize("options", [{"acks": "1"}, {"acks": "0"}, {"retries": "0"}])
def test_default_idempotence_is_off_where_a_setting_conflicts(options: dict[str, str]) -> None:
    assert not ClientConfig.parse(SERVERS | options).enable_idempotence


def test_a_longer_request_timeout_raises_the_default_delivery_timeout() -> None:
    assert parse(request_timeout_ms="200000").delivery_timeout_ms == 200_500


def test_a_reconnect_backoff_above_its_default_bound_raises_the_bound() -> None:
    assert parse(reconnect_backoff_ms="5000").reconnect_backoff_max_ms == 5000
    assert parse(reconnect_backoff_ms="5000", reconnect_backoff_max_ms="10").reconnect_backoff_max_ms == 10


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({}, None),
        ({"compression_type": "gzip"}, None),
        ({"compression_type": "gzip", "compression_gzip_level": "4"}, 4),
        ({"compression_type": "lz4"}, 9),
        ({"compression_type": "zstd", "compression_zstd_level": "-7"}, -7),
        ({"compression_type": "snappy"}, None),
    ],
)
def test_the_level_is_that_of_the_codec_in_use(options: dict[str, str], level: int | None) -> None:
    assert parse(**options).compression_level == level


def test_transactions_need_idempotence() -> None:
    config = ClientConfig.parse(SERVERS | {"transactional.id": " sink ", "transaction.timeout.ms": "5000"})
    assert (config.transactional_id, config.transaction_timeout_ms) == ("sink", 5000)
    assert ClientConfig.parse(SERVERS).transactional_id is None
    for conflict in ({"enable.idempotence": "false"}, {"acks": "1"}, {"retries": "0"}):
        error = refusal(SERVERS | {"transactional.id": "sink"} | conflict)
        assert (error.option, "needs enable.idempotence=true" in error.message) == ("transactional.id", True)
    for wrong in ({"transactional.id": " "}, {"transaction.timeout.ms": "0"}):
        refusal(SERVERS | wrong)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            {"delivery.timeout.ms": "1000"},
            "1000 is less than kafka.linger.ms + kafka.request.timeout.ms = 30500",
        ),
        ({"acks": "1", "enable.idempotence": "true"}, "must be all with kafka.enable.idempotence=true"),
        (
            {"transactional.id": "t", "acks": "1"},
            "needs kafka.enable.idempotence=true, kafka.acks=all and kafka.retries",
        ),
    ],
)
def test_other_options_of_a_conflict_have_the_users_prefix(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        ClientConfig.parse(SERVERS | options, option_prefix="kafka.")


def test_no_property_is_in_two_tables() -> None:
    tables = [set(PROPERTIES), set(WITHOUT_EFFECT), set(REFUSED)]
    assert sum(map(len, tables)) == len(set.union(*tables))
    assert set(DEPARTURES) <= set(PROPERTIES)


def test_every_reason_is_part_of_a_sentence() -> None:
    for reason in (*WITHOUT_EFFECT.values(), *REFUSED.values(), *DEPARTURES.values()):
        assert reason
        assert not reason.endswith(".")
