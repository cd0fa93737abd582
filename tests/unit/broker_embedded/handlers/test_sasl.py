import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker.driver import BrokerDriver


@pytest.mark.parametrize("version", [0, 1, 2])
def test_sasl_authenticate_without_sasl(broker: BrokerDriver, version: int) -> None:
    response = broker.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"), version)
    assert (response.error_code, response.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
    assert "hunter2" not in str(response.error_message)


@pytest.mark.parametrize("version", [0, 1])
def test_sasl_handshake_without_sasl(broker: BrokerDriver, version: int) -> None:
    response = broker.ask(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, ())
