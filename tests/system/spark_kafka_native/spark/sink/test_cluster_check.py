from collections.abc import Iterator

import pytest

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._client.admin.configs import Resource
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.exactly_once.names import Names
from spark_kafka_native._spark.exactly_once.timing import timing_of
from spark_kafka_native._spark.options.parsed import ExactlyOnce
from spark_kafka_native._spark.sink import cluster_check
from spark_kafka_native._spark.sink.cluster_check import check_cluster
from tests.support.clients.native import config_of


@pytest.fixture
def cluster(bundled_broker: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(config_of(bundled_broker.bootstrap_servers)) as made:
        yield made


def chosen(prefix: str = "cluster_check", timeout_ms: int = 60_000) -> ExactlyOnce:
    return ExactlyOnce(names=Names(prefix=prefix), timing=timing_of(timeout_ms, 1_000))


@pytest.mark.feature("sink.exactlyOnceOptions")
def test_timeout_above_the_brokers_limit_is_refused_first(cluster: Cluster) -> None:
    check_cluster(cluster, chosen(timeout_ms=900_000))
    with pytest.raises(OptionError) as caught:
        check_cluster(cluster, chosen(timeout_ms=900_001))
    assert str(caught.value) == (
        "option 'kafka.transaction.timeout.ms': 900001 is more than the brokers' transaction.max.timeout.ms, 900000"
    )


def test_topic_of_decisions_that_is_not_compacted_is_refused(cluster: Cluster, bundled_broker: BrokerProcess) -> None:
    bundled_broker.create_topic("forgets.decisions", 1, {"cleanup.policy": "compact,delete"})
    with pytest.raises(OptionError, match=r"'transactional.id.prefix': topic forgets.decisions has cleanup.policy=com"):
        check_cluster(cluster, chosen("forgets"))
    bundled_broker.create_topic("keeps.decisions", 1, {"cleanup.policy": "compact"})
    check_cluster(cluster, chosen("keeps"))


@pytest.mark.parametrize("code", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_unauthorized_configs_are_not_checked(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    asked: list[Resource] = []

    def refused(_: Cluster, resource: Resource, *__: object) -> None:
        asked.append(resource)
        raise KafkaError(code, str(resource))

    monkeypatch.setattr(cluster_check, "describe_configs", refused)
    for _ in range(2):
        check_cluster(cluster, chosen(f"not-to-be-seen-{code.name}"))
    assert len(asked) == 2, "once per process"


def test_unreachable_brokers_are_an_error(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "broker 1")

    monkeypatch.setattr(cluster_check, "describe_configs", fails)
    with pytest.raises(KafkaError, match="broker 1"):
        check_cluster(cluster, chosen("unreachable"))
