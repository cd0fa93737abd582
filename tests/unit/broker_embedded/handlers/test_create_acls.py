"""CreateAcls: rules that nobody would go by are refused."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.support.broker_driver import BrokerDriver


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("count", [0, 1, 2])
def test_each_rule_is_refused_in_every_version(broker: BrokerDriver, version: int, count: int) -> None:
    broker.passing_for("3.9")
    rule = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
    results = broker.ask(CreateAclsRequest(creations=(rule,) * count), version).results
    assert [result.error_code for result in results] == [ErrorCode.SECURITY_DISABLED] * count
