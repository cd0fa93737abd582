import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.create_acls import AclCreation, CreateAclsRequest
from spark_kafka_native._protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from spark_kafka_native._protocol.messages.describe_acls import DescribeAclsRequest
from tests.support.broker.driver import BrokerDriver


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("count", [0, 1, 2])
def test_each_rule_is_refused_in_every_version(broker: BrokerDriver, version: int, count: int) -> None:
    broker.passing_for("3.9")
    rule = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
    results = broker.ask(CreateAclsRequest(creations=(rule,) * count), version).results
    assert [result.error_code for result in results] == [ErrorCode.SECURITY_DISABLED] * count


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("count", [0, 1, 2])
def test_each_filter_is_refused_in_every_version(broker: BrokerDriver, version: int, count: int) -> None:
    broker.passing_for("3.9")
    any_rule = DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
    results = broker.ask(DeleteAclsRequest(filters=(any_rule,) * count), version).filter_results
    assert [(result.error_code, result.matching_acls) for result in results] == [
        (ErrorCode.SECURITY_DISABLED, ())
    ] * count


@pytest.mark.parametrize("version", range(4))
def test_there_is_no_authorizer_in_any_version(broker: BrokerDriver, version: int) -> None:
    broker.passing_for("3.9")
    request = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
    response = broker.ask(request, version)
    assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, ())
    assert "No Authorizer" in (response.error_message or "")
