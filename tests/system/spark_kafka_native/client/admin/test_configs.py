import pytest

from spark_kafka_native._client.admin.configs import (
    ConfigSource,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.errors import BrokerNotAvailable
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from spark_kafka_native._protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from tests.support.scripted.cluster import KAFKA_4_3, ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers
from tests.support.scripted.steps import Drop, Respond

TOPIC = Resource(type=ResourceType.TOPIC, name="t")
APIS = {DescribeConfigsRequest.api_key: (1, 4), IncrementalAlterConfigsRequest.api_key: (0, 1)}


brokers = scripted_brokers(brokers=3, topics={"t": 1}, versions={**KAFKA_4_3, **APIS})


def described(error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> Respond:
    synonym = DescribeConfigsSynonym(name="log.retention.ms", value="5", source=4)
    config = DescribeConfigsResourceResult(name="retention.ms", value="7", config_source=1, synonyms=(synonym,))
    other = DescribeConfigsResourceResult(
        name="secret", value=None, is_sensitive=True, read_only=True, config_source=77
    )
    result = DescribeConfigsResult(error_code=error, error_message=message, configs=(config, other))
    return Respond(lambda _: DescribeConfigsResponse(results=(result,)))


def altered(error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> Respond:
    result = AlterConfigsResourceResponse(error_code=error, error_message=message)
    return Respond(lambda _: IncrementalAlterConfigsResponse(responses=(result,)))


def test_configs_have_their_sources_and_synonyms(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(DescribeConfigsRequest, described())
    found = describe_configs(cluster, TOPIC)
    retention, secret = found["retention.ms"], found["secret"]
    assert (retention.value, retention.source) == ("7", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert retention.synonyms == ((ConfigSource.STATIC_BROKER_CONFIG, "log.retention.ms", "5"),)
    assert retention.is_set_on(ResourceType.TOPIC)
    assert (secret.value, secret.sensitive, secret.read_only, secret.source) == (None, True, True, ConfigSource.UNKNOWN)
    assert not secret.is_set_on(ResourceType.TOPIC)
    (request,) = brokers.requests(DescribeConfigsRequest)
    (resource,) = request.resources
    assert (resource.resource_type, resource.resource_name, resource.configuration_keys) == (2, "t", None)


def test_describe_configs_of_a_broker_goes_to_that_broker(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(DescribeConfigsRequest, described())
    describe_configs(cluster, Resource(type=ResourceType.BROKER, name="3"), ["a"])
    ((node, request),) = [(n, r) for n, r, _ in brokers.received if isinstance(r, DescribeConfigsRequest)]
    assert (node, request.resources[0].configuration_keys) == (3, ("a",))


def test_a_refused_resource_is_named(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(DescribeConfigsRequest, described(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None))
    with pytest.raises(KafkaError, match=r"topic t.*\(UNKNOWN_TOPIC_OR_PARTITION, "):
        describe_configs(cluster, TOPIC)
    brokers.script(DescribeConfigsRequest, Respond(lambda _: DescribeConfigsResponse()))
    with pytest.raises(KafkaError, match="topic t is missing from the DescribeConfigs response"):
        describe_configs(cluster, TOPIC)


def test_configs_are_set_and_deleted(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(IncrementalAlterConfigsRequest, Drop(), altered())
    alter_configs(cluster, TOPIC, {"a": "1", "b": None}, validate_only=True)
    request = brokers.requests(IncrementalAlterConfigsRequest)[-1]
    assert request.validate_only
    changes = [(config.name, config.config_operation, config.value) for config in request.resources[0].configs]
    assert changes == [("a", 0, "1"), ("b", 1, None)]


def test_an_unknown_topic_is_an_error_without_retries(brokers: ScriptedCluster, cluster: Cluster) -> None:
    busy, missing = altered(ErrorCode.REQUEST_TIMED_OUT), altered(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    brokers.script(IncrementalAlterConfigsRequest, busy, missing, altered())
    with pytest.raises(KafkaError, match=r"topic t.*\(UNKNOWN_TOPIC_OR_PARTITION, "):
        alter_configs(cluster, TOPIC, {"a": "1"})
    assert len(brokers.requests(IncrementalAlterConfigsRequest)) == 2


def test_an_invalid_config_has_the_brokers_message(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(IncrementalAlterConfigsRequest, altered(ErrorCode.INVALID_CONFIG, "no such setting"))
    with pytest.raises(KafkaError, match="broker <default>: no such setting"):
        alter_configs(cluster, Resource(type=ResourceType.BROKER, name=""), {"a": "1"})


def test_a_broker_that_is_not_in_the_cluster_is_an_error_without_retries(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    resource = Resource(type=ResourceType.BROKER, name="99")
    ids = ", ".join(map(str, sorted(brokers.brokers)))
    with pytest.raises(BrokerNotAvailable, match=f"broker 99 is not in the cluster; its brokers are {ids}$"):
        describe_configs(cluster, resource)
    with pytest.raises(BrokerNotAvailable):
        alter_configs(cluster, resource, {"log.retention.ms": "1"})
    assert len(brokers.requests(MetadataRequest)) == 2


def test_alter_configs_has_one_deadline_for_all_its_requests(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[Deadline] = []

    def node(_: Cluster, node_id: int, deadline: Deadline) -> None:
        deadlines.append(deadline)

    def send(_: Cluster, node_id: int, request: object, *, deadline: Deadline) -> IncrementalAlterConfigsResponse:
        deadlines.append(deadline)
        return IncrementalAlterConfigsResponse()

    monkeypatch.setattr(Cluster, "node", node)
    monkeypatch.setattr(Cluster, "send", send)
    alter_configs(cluster, Resource(type=ResourceType.BROKER, name="1"), {"a": "b"}, timeout_ms=5_000)
    of_the_check, of_the_request = deadlines
    assert of_the_request is of_the_check
