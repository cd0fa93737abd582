"""UnregisterBroker: this broker is here, and no other ever was."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.broker_driver import BrokerDriver


@pytest.mark.parametrize(
    ("broker_id", "code"),
    [(1, ErrorCode.INVALID_REQUEST), (2, ErrorCode.BROKER_ID_NOT_REGISTERED), (-1, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_nobody_is_unregistered(broker: BrokerDriver, broker_id: int, code: ErrorCode) -> None:
    answer = broker.ask(UnregisterBrokerRequest(broker_id=broker_id), 0)
    assert answer.error_code == code
    assert str(broker_id) in (answer.error_message or "")
