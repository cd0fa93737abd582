"""Checks of a cluster's configs for exactly-once, once per process, before the first batch is planned."""

from typing import Final

from spark_kafka_native._client.admin.configs import Resource, ResourceType, describe_configs
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.options.exactly_once import PREFIX, TIMEOUT
from spark_kafka_native._spark.options.parsed import ExactlyOnce

_LIMIT: Final = "transaction.max.timeout.ms"
_POLICY: Final = "cleanup.policy"
_FORBIDDEN: Final = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})

_checked: set[tuple[ClientConfig, ExactlyOnce]] = set()


def check_cluster(cluster: Cluster, chosen: ExactlyOnce) -> None:
    """Raise OptionError if brokers would reject the timeout or delete decisions; KafkaError: no broker responds.

    Configs that the user has no permission to describe are not checked.
    """
    if (cluster.config, chosen) in _checked:
        return
    broker_id = min(cluster.metadata([]).brokers)
    limit = _setting(cluster, Resource(type=ResourceType.BROKER, name=str(broker_id)), _LIMIT)
    timeout_ms = chosen.timing.transaction_timeout_ms
    if limit is not None and timeout_ms > int(limit):
        raise OptionError(TIMEOUT, f"{timeout_ms} is more than the brokers' {_LIMIT}, {limit}")
    topic = chosen.names.decisions_topic
    policy = _setting(cluster, Resource(type=ResourceType.TOPIC, name=topic), _POLICY)
    if policy is not None and policy != "compact":
        raise OptionError(
            PREFIX,
            f"topic {topic} has {_POLICY}={policy}, and its last records must not be deleted: set {_POLICY}=compact, "
            "or choose another prefix",
        )
    _checked.add((cluster.config, chosen))


def _setting(cluster: Cluster, resource: Resource, name: str) -> str | None:
    """The value of a config; None: it does not exist, or there is no permission to describe it."""
    try:
        found = describe_configs(cluster, resource, [name]).get(name)
    except KafkaError as error:
        if error.code in _FORBIDDEN or error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise
    return None if found is None else found.value
