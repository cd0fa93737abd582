import time
from collections.abc import Callable
from typing import Any

import pytest

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.blocking import Connection, SocketOptions
from spark_kafka_native._net.channel_security import ChannelSecurity
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable, ConnectionLost
from spark_kafka_native._net.sasl.mechanism import Mechanism
from spark_kafka_native._net.sasl.oauthbearer import BearerToken, OAuthBearer
from spark_kafka_native._net.sasl.plain import Plain
from spark_kafka_native._net.sasl.scram import Scram
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.features.feature import showing
from tests.support.scripted.cluster import KAFKA_0_11, ScriptedCluster
from tests.support.scripted.security import Guard
from tests.support.scripted.steps import Drop, Silent

WORD = "hunter2"
ALL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def guard(*mechanisms: str, **given: Any) -> Guard:
    return Guard(mechanisms=mechanisms or ALL, users={"alice": WORD}, tokens={"a.b.c": "carol"}, **given)


def mechanism(name: str, word: str = WORD) -> Callable[[HostPort], Mechanism]:
    def make(_: HostPort) -> Mechanism:
        if name == "PLAIN":
            return Plain("alice", Secret(word))
        if name == "OAUTHBEARER":
            token = "a.b.c" if word == WORD else word
            return OAuthBearer(BearerToken(value=Secret(token), extensions={"trace": "7"}))
        return Scram(name, "alice", Secret(word))

    return make


def connect(cluster: ScriptedCluster, make: Callable[[HostPort], Mechanism], timeout_ms: int = 60_000) -> Connection:
    security = ChannelSecurity(sasl=make, option_prefix="kafka.")
    options = SocketOptions(client_id="t", connect_timeout_ms=timeout_ms, request_timeout_ms=60_000, security=security)
    return Connection.open(HostPort("127.0.0.1", cluster.brokers[1].port), options)


@pytest.mark.parametrize(
    "name",
    [
        showing("PLAIN", shows="security.plain"),
        showing("SCRAM-SHA-256", shows="security.scram"),
        showing("SCRAM-SHA-512", shows="security.scram"),
        showing("OAUTHBEARER", shows="security.oauth"),
    ],
)
def test_every_mechanism_authenticates(name: str) -> None:
    authenticator = guard()
    with ScriptedCluster(guard=authenticator) as cluster, connect(cluster, mechanism(name)) as connection:
        assert connection.call(MetadataRequest(topics=None)).brokers
    assert authenticator.authenticated == ["carol trace=7" if name == "OAUTHBEARER" else "alice"]


@pytest.mark.parametrize("name", ALL[:3])
def test_brokers_before_1_0_take_bare_tokens(name: str) -> None:
    authenticator = guard(is_old=True)
    with (
        ScriptedCluster(guard=authenticator, versions=KAFKA_0_11) as cluster,
        connect(cluster, mechanism(name)) as connection,
    ):
        assert connection.call(MetadataRequest(topics=None)).brokers
        assert [version for _, _, version in cluster.received] == [0, 4]
    assert authenticator.authenticated == ["alice"]


@pytest.mark.parametrize(("name", "is_old"), [*((name, False) for name in ALL), *((name, True) for name in ALL[:3])])
def test_a_wrong_password_is_final(name: str, is_old: bool) -> None:
    authenticator = guard(is_old=is_old, echoes=True)
    with ScriptedCluster(guard=authenticator) as cluster, pytest.raises(AuthenticationFailed) as caught:
        connect(cluster, mechanism(name, "wrong-hunter"))
    assert caught.value.option == "kafka.sasl.jaas.config"
    assert "wrong-hunter" not in repr(caught.value)
    assert not caught.value.retriable
    assert authenticator.authenticated == []


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_broker_that_does_not_know_the_password_is_not_trusted(name: str) -> None:
    for authenticator, complaint in (
        (guard(knows_passwords=False), "not know the password"),
        (guard(iterations=9), "9 iter"),
    ):
        with ScriptedCluster(guard=authenticator) as cluster, pytest.raises(AuthenticationFailed, match=complaint):
            connect(cluster, mechanism(name))


def test_a_mechanism_that_is_not_offered() -> None:
    with ScriptedCluster(guard=guard("PLAIN")) as cluster, pytest.raises(AuthenticationFailed) as caught:
        connect(cluster, mechanism("SCRAM-SHA-256"))
    assert str(caught.value).endswith("kafka.sasl.mechanism: the broker does not offer SCRAM-SHA-256, but PLAIN")


def test_a_broker_without_sasl() -> None:
    with ScriptedCluster() as cluster, pytest.raises(AuthenticationFailed, match="the broker has no SASL") as caught:
        connect(cluster, mechanism("PLAIN"))
    assert caught.value.option == "kafka.security.protocol"


@pytest.mark.parametrize("request_class", [SaslHandshakeRequest, SaslAuthenticateRequest])
def test_a_broker_that_fails_in_the_sasl_exchange_is_connected_to_again(request_class: type[Any]) -> None:
    with ScriptedCluster(guard=guard()) as cluster:
        cluster.script(request_class, Drop())
        with pytest.raises((BrokerUnreachable, AuthenticationFailed)):
            connect(cluster, mechanism("SCRAM-SHA-256"))
        cluster.script(request_class, Silent())
        with pytest.raises(BrokerUnreachable, match="within"):
            connect(cluster, mechanism("SCRAM-SHA-256"), timeout_ms=600)
        with connect(cluster, mechanism("SCRAM-SHA-256")) as connection:
            assert connection.call(MetadataRequest(topics=None)).brokers


def test_sessions_are_renewed_while_requests_are_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    authenticator = guard(lifetime_ms=60_000)
    with ScriptedCluster(guard=authenticator) as cluster, connect(cluster, mechanism("SCRAM-SHA-256")) as connection:
        assert connection.call(MetadataRequest(topics=None)).brokers
        assert len(authenticator.authenticated) == 1
        deadline = Deadline.after_ms(20_000)
        sent = [connection.send(MetadataRequest(topics=None), deadline=deadline) for _ in range(3)]
        now = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: now() + 58)
        sent.append(connection.enqueue(MetadataRequest(topics=None)))
        assert len(authenticator.authenticated) == 2
        monkeypatch.setattr(time, "monotonic", now)
        assert connection.in_flight == 4
        assert [connection.receive(deadline)[0] for _ in range(4)] == sent


def test_a_session_that_cannot_be_renewed_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter([WORD, "wrong-hunter"])
    authenticator = guard(lifetime_ms=60_000)

    def make(_: HostPort) -> Mechanism:
        return Plain("alice", Secret(next(words)))

    with ScriptedCluster(guard=authenticator) as cluster, connect(cluster, make) as connection:
        now = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: now() + 58)
        with pytest.raises(AuthenticationFailed) as caught:
            connection.enqueue(MetadataRequest(topics=None))
        assert caught.value.option == "kafka.sasl.jaas.config"
        assert connection.closed


def test_a_connection_lost_in_a_renewal_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    authenticator = guard(lifetime_ms=60_000)
    with ScriptedCluster(guard=authenticator) as cluster, connect(cluster, mechanism("PLAIN")) as connection:
        cluster.script(SaslHandshakeRequest, Drop())
        now = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: now() + 58)
        with pytest.raises(ConnectionLost):
            connection.enqueue(MetadataRequest(topics=None))
        assert connection.closed


def test_sessions_without_an_end_are_left_alone() -> None:
    authenticator = guard()
    with ScriptedCluster(guard=authenticator) as cluster, connect(cluster, mechanism("PLAIN")) as connection:
        for _ in range(3):
            connection.call(MetadataRequest(topics=None))
    assert authenticator.authenticated == ["alice"]
