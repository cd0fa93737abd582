import pytest

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.channel_security import PLAINTEXT, ChannelSecurity
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable
from spark_kafka_native._net.sasl.mechanism import Mechanism, SaslError
from spark_kafka_native._net.sasl.plain import Plain
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._net.tls import Tls, TlsSettings

BROKER = HostPort("broker", 9092)


def plain(_: HostPort) -> Mechanism:
    return Plain("alice", Secret("x"))


def failing(retriable: bool) -> ChannelSecurity:
    def make(_: HostPort) -> Mechanism:
        raise SaslError("no token", "sasl.mechanism", retriable=retriable)

    return ChannelSecurity(sasl=make)


def test_kafkas_names_of_protocols() -> None:
    tls = Tls(TlsSettings())
    made = [PLAINTEXT, ChannelSecurity(tls=tls), ChannelSecurity(sasl=plain), ChannelSecurity(tls=tls, sasl=plain)]
    assert [security.protocol for security in made] == ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


def test_a_mechanism_is_made_for_each_authentication() -> None:
    assert PLAINTEXT.mechanism_for(BROKER) is None
    security = ChannelSecurity(sasl=plain)
    assert security.mechanism_for(BROKER) is not security.mechanism_for(BROKER)


def test_sasl_errors_are_authentication_failed_or_broker_unreachable() -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        failing(retriable=False).mechanism_for(BROKER)
    assert str(caught.value) == "broker:9092: sasl.mechanism: no token"
    with pytest.raises(BrokerUnreachable, match=r"sasl\.mechanism: no token") as unreachable:
        failing(retriable=True).mechanism_for(BROKER)
    assert unreachable.value.retriable
