"""DescribeAcls: nobody may do more or less than others."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.describe_acls import DescribeAclsRequest
from tests.support.broker_driver import BrokerDriver


@pytest.mark.parametrize("version", range(4))
def test_there_is_no_authorizer_in_any_version(broker: BrokerDriver, version: int) -> None:
    broker.passing_for("3.9")
    request = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
    answer = broker.ask(request, version)
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, ())
    assert "No Authorizer" in (answer.error_message or "")
