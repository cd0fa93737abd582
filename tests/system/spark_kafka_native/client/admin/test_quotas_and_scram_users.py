from collections.abc import Iterator

import pytest

from spark_kafka_native._client.admin.quotas import ANY_NAME, alter_quotas, describe_quotas
from spark_kafka_native._client.admin.scram_users import Password, alter_scram_user, describe_scram_users
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import KafkaError
from tests.support.clients.native import config_of
from tests.support.servers.brokers import AnyBroker
from tests.support.waiting import eventually


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
    with pytest.raises(KafkaError, match=r"\(INVALID_REQUEST, "):
        alter_quotas(cluster, (("user", "quotas-u"),), {"producer_byte_rate": 1.5})
    with pytest.raises(KafkaError, match=r"\(UNSUPPORTED_VERSION, "):
        describe_quotas(cluster, {"nonsense": None})
    with pytest.raises(KafkaError, match=r"^quotas of the default user, client-id c: .*\(INVALID_REQUEST, "):
        alter_quotas(cluster, (("user", None), ("client-id", "c")), {"producer_byte_rate": 1.5})


SECRET = Secret("hunter2")


def test_a_user_has_a_credential_for_each_mechanism(cluster: Cluster) -> None:
    assert describe_scram_users(cluster, "scram-users-a") == {}
    alter_scram_user(cluster, "scram-users-a", [Password(mechanism="SCRAM-SHA-256", password=SECRET)])
    more = Password(mechanism="SCRAM-SHA-512", password=SECRET, iterations=5000)
    alter_scram_user(cluster, "scram-users-a", [more])
    credentials = {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 5000}
    # A broker of Apache Kafka answers an alteration before its own metadata has it.
    eventually(lambda: describe_scram_users(cluster, "scram-users-a"), {"scram-users-a": credentials})
    assert describe_scram_users(cluster)["scram-users-a"] == credentials
    alter_scram_user(cluster, "scram-users-a", deleted=["SCRAM-SHA-256"])
    alter_scram_user(cluster, "scram-users-a", deleted=["SCRAM-SHA-512"])
    eventually(lambda: describe_scram_users(cluster, "scram-users-a"), {})


def test_a_credential_that_the_cluster_refuses(cluster: Cluster) -> None:
    few = Password(mechanism="SCRAM-SHA-256", password=SECRET, iterations=1)
    with pytest.raises(KafkaError, match=r"\(UNACCEPTABLE_CREDENTIAL, "):
        alter_scram_user(cluster, "scram-users-b", [few])
    with pytest.raises(KafkaError, match=r"\(RESOURCE_NOT_FOUND, "):
        alter_scram_user(cluster, "scram-users-b", deleted=["SCRAM-SHA-256"])
