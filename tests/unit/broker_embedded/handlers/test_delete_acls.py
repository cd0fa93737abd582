"""DeleteAcls: there are no rules to remove."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.support.broker_driver import BrokerDriver


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("count", [0, 1, 2])
def test_each_filter_is_refused_in_every_version(broker: BrokerDriver, version: int, count: int) -> None:
    broker.passing_for("3.9")
    any_rule = DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
    results = broker.ask(DeleteAclsRequest(filters=(any_rule,) * count), version).filter_results
    assert [(result.error_code, result.matching_acls) for result in results] == [
        (ErrorCode.SECURITY_DISABLED, ())
    ] * count
