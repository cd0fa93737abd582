from collections.abc import Iterator

import pytest

from spark_kafka_native.client.admin.quotas import ANY_NAME, alter_quotas, describe_quotas
from spark_kafka_native.client.cluster.cluster import Cluster
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from tests.support.brokers import AnyBroker
from tests.support.our_client import config_of


@pytest.fixture
def cluster(any_broker: AnyBroker) -> Iterator[Cluster]:
    with Cluster(config_of(any_broker.bootstrap_servers)) as made:
        yield made


def test_quotas_of_exactly_the_types_that_are_named(cluster: Cluster) -> None:
    user, both = (("user", "quotas-u"),), (("user", "quotas-u"), ("client-id", None))
    alter_quotas(cluster, user, {"producer_byte_rate": 10.0, "request_percentage": 1.5})
    alter_quotas(cluster, both, {"consumer_byte_rate": 20.0})
    assert describe_quotas(cluster, {"user": "quotas-u"}) == {
        user: {"producer_byte_rate": 10.0, "request_percentage": 1.5}
    }
    found = describe_quotas(cluster, {"user": "quotas-u", "client-id": ANY_NAME})
    assert {frozenset(entity): quotas for entity, quotas in found.items()} == {
        frozenset(both): {"consumer_byte_rate": 20.0}
    }
    alter_quotas(cluster, both, {"consumer_byte_rate": None})
    alter_quotas(cluster, user, {"producer_byte_rate": None, "request_percentage": None})
    assert describe_quotas(cluster, {"user": "quotas-u", "client-id": None}) == {}
    assert describe_quotas(cluster, {"user": "quotas-u"}) == {}


def test_a_quota_that_the_cluster_refuses(cluster: Cluster) -> None:
    with pytest.raises(KafkaError) as caught:
        alter_quotas(cluster, (("user", "quotas-u"),), {"producer_byte_rate": 1.5})
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError) as caught:
        describe_quotas(cluster, {"nonsense": None})
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
