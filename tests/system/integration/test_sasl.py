from collections.abc import Iterator

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.clients.interface import Record
from tests.support.clients.native import config_of, outlive_sessions, read_range, rows_of
from tests.support.servers.both_brokers import BOTH
from tests.support.servers.brokers import TopicMaker
from tests.support.servers.sasl_brokers import SCRAM_USERS, USERS, SaslServer, jaas, plain_jaas, sasl_broker, scram_jaas

OVER_TCP = {"security_protocol": "SASL_PLAINTEXT"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module", params=BOTH)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslServer]:
    with sasl_broker(request.param, tmp_path_factory.mktemp("sasl")) as running:
        yield running


@pytest.fixture
def topic(broker: SaslServer) -> str:
    return TopicMaker(broker)()


def round_trip(servers: str, topic: str, mechanism: str, jaas_config: str) -> None:
    config = config_of(servers, sasl_mechanism=mechanism, sasl_jaas_config=jaas_config, **OVER_TCP)
    with Cluster(config) as cluster:
        with Producer(cluster) as producer:
            producer.send(topic, rows_of([Record(None, b"x")]))
        (row,) = read_range(cluster, TopicPartition(topic, 0), 0, 1)
    assert row.value == b"x"


def refusal(servers: str, mechanism: str, jaas_config: str) -> AuthenticationFailed:
    config = config_of(servers, sasl_mechanism=mechanism, sasl_jaas_config=jaas_config, **OVER_TCP)
    with Cluster(config) as cluster, pytest.raises(AuthenticationFailed) as caught:
        cluster.metadata(timeout_ms=600_000)  # trying again, which locks accounts, would take longer than a test may
    words = (*USERS.values(), *SCRAM_USERS.values(), "wrong-hunter2")
    assert not any(word in str(caught.value) for word in words)
    return caught.value


@pytest.mark.parametrize("user", USERS)
def test_plain(broker: SaslServer, topic: str, user: str) -> None:
    round_trip(broker.servers_of("SASL"), topic, "PLAIN", plain_jaas(user))


@pytest.mark.parametrize("user", SCRAM_USERS)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(broker: SaslServer, topic: str, mechanism: str, user: str) -> None:
    round_trip(broker.servers_of("SASL"), topic, mechanism, scram_jaas(user))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "unknown"])
def test_a_wrong_password_ends_the_matter_at_once(broker: SaslServer, mechanism: str, user: str) -> None:
    error = refusal(broker.servers_of("SASL"), mechanism, jaas(mechanism, user, "wrong-hunter2"))
    assert (error.option, error.code) == ("sasl.jaas.config", ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert mechanism in str(error)


def test_a_mechanism_that_the_listener_lacks(broker: SaslServer) -> None:
    error = refusal(broker.servers_of("SCRAMONLY"), "PLAIN", plain_jaas("alice"))
    assert (error.option, error.code) == ("sasl.mechanism", ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    assert "does not offer PLAIN, but SCRAM-SHA-512" in str(error)


def test_sasl_where_there_is_none(broker: SaslServer) -> None:
    error = refusal(broker.bootstrap_servers, "PLAIN", plain_jaas("alice"))
    assert (error.option, error.code) == ("security.protocol", ErrorCode.ILLEGAL_SASL_STATE)


def test_one_connection_outlives_its_sessions(broker: SaslServer) -> None:
    mechanism = "SCRAM-SHA-256"
    config = config_of(
        broker.servers_of("LEASE"), sasl_mechanism=mechanism, sasl_jaas_config=jaas(mechanism, "alice"), **OVER_TCP
    )
    with Cluster(config) as cluster:
        node = next(iter(cluster.metadata().brokers.values()))
        with cluster.lent(node, Deadline.after_ms(60_000)) as connection:
            outlive_sessions(connection)
