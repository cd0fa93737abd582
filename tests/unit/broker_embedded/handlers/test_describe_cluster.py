"""DescribeCluster: one broker, which is the controller too."""

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest
from tests.support.broker_driver import NODE, BrokerDriver


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_in_every_version(broker: BrokerDriver, version: int) -> None:
    answer = broker.ask(DescribeClusterRequest(), version)
    assert (answer.error_code, answer.endpoint_type) == (0, 1)
    assert (answer.cluster_id, answer.controller_id) == (broker.broker.image.cluster_id, 1)
    assert answer.brokers == (DescribeClusterBroker(broker_id=1, host=NODE.host, port=NODE.port),)
    assert answer.cluster_authorized_operations == -(2**31)


def test_operations_without_an_authorizer_are_all(broker: BrokerDriver) -> None:
    answer = broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert answer.cluster_authorized_operations == 0b1_1111_1010_0000


def test_there_are_no_fenced_brokers(broker: BrokerDriver) -> None:
    answer = broker.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)
    assert [node.is_fenced for node in answer.brokers] == [False]


@pytest.mark.parametrize(
    ("endpoints", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_broker_knows_of_brokers_only(broker: BrokerDriver, version: int, endpoints: int, code: ErrorCode) -> None:
    answer = broker.ask(DescribeClusterRequest(endpoint_type=endpoints), version)
    assert (answer.error_code, answer.cluster_id, answer.brokers) == (code, "", ())
    assert answer.error_message
