"""Administration: the bundled broker answers as Apache Kafka does. Settings are in test_same_settings.py."""

import pytest

from broker_embedded._config.releases import NOT_SERVED
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.messages import alter_partition_reassignments as moving
from spark_kafka_native._protocol.messages import create_acls, delete_acls, describe_acls
from spark_kafka_native._protocol.messages import describe_log_dirs as directories
from spark_kafka_native._protocol.messages import describe_producers as producers
from spark_kafka_native._protocol.messages import describe_quorum as quorums
from spark_kafka_native._protocol.messages import describe_topic_partitions as paging
from spark_kafka_native._protocol.messages import elect_leaders as electing
from spark_kafka_native._protocol.messages import list_partition_reassignments as moves
from spark_kafka_native._protocol.messages import offset_for_leader_epoch as epochs
from spark_kafka_native._protocol.messages import update_features as features
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.describe_cluster import DescribeClusterRequest
from spark_kafka_native._protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.broker.configs import SET, TOPIC, change_request
from tests.support.broker.driver import batch, idempotent, produce_request
from tests.support.requests.conversation import Conversation
from tests.support.requests.of_topic import alter_replica_log_dirs, delete_records
from tests.support.requests.raw_client import RawClient
from tests.support.requests.same_responses import compare_brokers
from tests.support.servers.apache_kafka import ApacheKafka

pytestmark = pytest.mark.interop

NEWEST = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def about_quorum(topic: str, index: int) -> quorums.DescribeQuorumRequest:
    part = quorums.RequestedPartitionData(partition_index=index)
    return quorums.DescribeQuorumRequest(topics=(quorums.RequestedTopicData(topic_name=topic, partitions=(part,)),))


def test_ranges_and_features(kafka_broker: EmbeddedBroker, apache_kafka: ApacheKafka) -> None:
    with RawClient(kafka_broker.bootstrap_servers) as ours, RawClient(apache_kafka.bootstrap_servers) as theirs:
        for version in range(5):
            our_response, their_response = (client.ask(NEWEST, version) for client in (ours, theirs))
            missing = {key for keys in NOT_SERVED.values() for key in keys}
            assert our_response.api_keys == tuple(
                item for item in their_response.api_keys if item.api_key not in missing
            )
            known = {item.name: item for item in their_response.supported_features}
            for feature in our_response.supported_features:
                assert feature == known[feature.name]
            finalized = {item.name: item for item in their_response.finalized_features}
            assert all(finalized[item.name] == item for item in our_response.finalized_features)


@compare_brokers
def test_records_are_deleted(broker: Conversation) -> None:
    def delete(broker: Conversation, topic: str, offset: int, partition: int = 0, note: str = "") -> None:
        request = delete_records(topic, offset, partition, timeout_ms=5000)

        def read() -> object:
            ((result,),) = (answered.partitions for answered in broker.response(request, 2).topics)
            return result.partition_index, result.low_watermark, result.error_code

        broker.look(f"DeleteRecords {broker.plain(topic)}-{partition} to {offset} {note}", read)

    broker.create("t", 2)
    name = broker.topic("t")
    for _ in range(5):
        broker.ask(produce_request(name, batch(b"a", b"b")), 9)
    for offset in (3, 1, 5, -2, 99):
        delete(broker, name, offset)
    delete(broker, name, 0, partition=1)
    delete(broker, name, 0, partition=9)
    delete(broker, broker.topic("missing"), 0)
    for policy in ("compact", "compact,delete", "", "delete"):
        broker.ask(change_request(TOPIC, name, ("cleanup.policy", SET, policy)), 1, f"{policy!r} for deletion")
        delete(broker, name, 6, note=f"under {policy!r}")
    delete(broker, name, -1)


@compare_brokers
def test_epochs_and_producers(broker: Conversation) -> None:
    def end_of(broker: Conversation, epoch: int, topic: str = "t", index: int = 0, **others: int) -> None:
        part = epochs.OffsetForLeaderPartition(
            partition=index, current_leader_epoch=others.pop("present", -1), leader_epoch=epoch
        )
        wanted = epochs.OffsetForLeaderTopic(topic=broker.topic(topic), partitions=(part,))
        for version in (2, 3, 4):
            request = epochs.OffsetForLeaderEpochRequest(replica_id=-1, topics=(wanted,))
            broker.ask(request, version, f"{topic}-{index} epoch {epoch} present {part.current_leader_epoch}")

    broker.create("t", 2)
    name = broker.topic("t")
    broker.ask(produce_request(name, batch(b"a", b"b")), 9)
    records = idempotent(batch(b"a", b"b"), producer_id=77, sequence=0, epoch=1)
    broker.ask(produce_request(name, records, 1), 9)
    for epoch in (0, 1, -1, 5):
        end_of(broker, epoch)
    for present in (0, 1, -2):
        end_of(broker, 0, present=present)
    end_of(broker, 0, index=9)
    end_of(broker, 0, topic="missing")
    for topic, indexes in ((name, (0, 1, 9)), (broker.topic("missing"), (0,)), ("a/b", (0,)), ("", (0,))):
        request = producers.TopicRequest(name=topic, partition_indexes=indexes)
        broker.ask(producers.DescribeProducersRequest(topics=(request,)), 0, broker.plain(topic))


@compare_brokers
def test_partitions_are_moved(broker: Conversation) -> None:
    def move(broker: Conversation, topic: str, index: int, replicas: tuple[int, ...] | None) -> None:
        part = moving.ReassignablePartition(partition_index=index, replicas=replicas)
        wanted = moving.ReassignableTopic(name=broker.topic(topic), partitions=(part,))
        for version in (0, 1):
            request = moving.AlterPartitionReassignmentsRequest(topics=(wanted,))
            broker.ask(request, version, f"{topic}-{index} to {replicas}")

    broker.create("t", 2)
    for replicas in ((1,), None, (), (9,), (1, 1), (1, 9), (-1,)):
        move(broker, "t", 0, replicas)
    for topic, index in (("t", 9), ("missing", 0)):
        for replicas in ((1,), None):
            move(broker, topic, index, replicas)
    some = moves.ListPartitionReassignmentsTopics(name=broker.topic("t"), partition_indexes=(0, 9))
    for topics in (None, (), (some,)):
        broker.ask(moves.ListPartitionReassignmentsRequest(topics=topics), 0)


@compare_brokers
def test_leaders_are_elected(broker: Conversation) -> None:
    def elect(broker: Conversation, kind: int, *partitions: tuple[str, tuple[int, ...]]) -> None:
        wanted = tuple(
            electing.TopicPartitions(topic=broker.topic(topic), partitions=indexes) for topic, indexes in partitions
        )
        for version in range(3):
            if version or not kind:
                request = electing.ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=3000)
                broker.ask(request, version, f"{kind} {partitions}")

    broker.create("t", 2)
    for kind in (0, 1, 7):
        elect(broker, kind, ("t", (0, 1)))
        elect(broker, kind, ("t", (9,)), ("missing", (0,)))
        elect(broker, kind)


@compare_brokers
def test_directories(broker: Conversation) -> None:
    broker.create("t", 2)
    broker.ask(produce_request(broker.topic("t"), batch(b"a" * 100)), 9)
    ((here,),) = ([item.log_dir for item in broker.response(directories.DescribeLogDirsRequest(), 5).results],)
    for path, topic, index in (
        (here, "t", 0),
        ("/nowhere", "t", 0),
        ("relative", "t", 0),
        (here, "t", 9),
        (here, "missing", 0),
        ("/nowhere", "missing", 0),
        (here, "x" * 240, 0),
    ):
        request = alter_replica_log_dirs(path, broker.topic(topic), index)
        broker.ask(request, 2, f"{topic[:9]}-{index} to {'here' if path == here else path}")
    named = directories.DescribableLogDirTopic(topic=broker.topic("t"), partitions=(0, 1, 9))
    missing = directories.DescribableLogDirTopic(topic=broker.topic("missing"), partitions=(0,))
    for version in range(1, 6):
        for topics in ((named, missing), ()):
            (result,) = broker.response(directories.DescribeLogDirsRequest(topics=topics), version).results
            assert result.log_dir == here
            assert version < 4 or 0 < result.usable_bytes <= result.total_bytes
            sizes = sorted((part.partition_index, part) for topic in result.topics for part in topic.partitions)
            broker.responses.append((f"DescribeLogDirs v{version} {len(topics)}", (result.error_code, sizes)))


@compare_brokers
def test_the_cluster(broker: Conversation) -> None:
    broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    for version in (1, 2):
        for endpoints in (1, 2, 3):
            request = DescribeClusterRequest(endpoint_type=endpoints, include_cluster_authorized_operations=True)
            broker.ask(request, version, f"endpoints {endpoints}")
    broker.ask(DescribeClusterRequest(include_fenced_brokers=True), 2, "fenced")
    for topic, index in (("__cluster_metadata", 1), ("unknown", 0)):
        broker.ask(about_quorum(topic, index), 2, f"{topic}-{index}")
    for broker_id in (9, -1):
        broker.ask(UnregisterBrokerRequest(broker_id=broker_id), 0, f"{broker_id}")
    for version in (1, 2, 3):
        any_rule = describe_acls.DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
        broker.ask(any_rule, version)
        rule = create_acls.AclCreation(
            resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
        )
        broker.ask(create_acls.CreateAclsRequest(creations=(rule, rule)), version)
        any_filter = delete_acls.DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
        broker.ask(delete_acls.DeleteAclsRequest(filters=(any_filter,)), version)


def test_the_quorum_of_one(kafka_broker: EmbeddedBroker, apache_kafka: ApacheKafka) -> None:
    for broker in (kafka_broker, apache_kafka):
        with RawClient(broker.bootstrap_servers) as client:
            response = client.ask(about_quorum("__cluster_metadata", 0), 2)
        ((found,),) = (topic.partitions for topic in response.topics)
        assert (response.error_code, found.error_code, found.leader_id, found.observers) == (0, 0, 1, ())
        assert [(voter.replica_id, voter.log_end_offset) for voter in found.current_voters] == [
            (1, found.high_watermark)
        ]
        assert [node.node_id for node in response.nodes] == [1]


@compare_brokers
def test_features_are_updated(broker: Conversation) -> None:
    for name, level, kind in (
        ("group.version", 1, 1),
        ("group.version", 0, 1),
        ("group.version", 0, 2),
        ("group.version", 9, 1),
        ("group.version", -1, 1),
        ("group.version", 1, 0),
        ("group.version", 1, 9),
        *(("transaction.version", level, kind) for level in (-1, 0, 1, 2, 3) for kind in (0, 1, 2, 3)),
        ("metadata.version", 30, 1),
        ("metadata.version", 29, 1),
        ("metadata.version", 29, 2),
        ("metadata.version", 99, 1),
        ("no.such", 1, 1),
        *(("eligible.leader.replicas.version", level, kind) for level in (-1, 0, 1, 2) for kind in (1, 2, 3)),
        *(("kraft.version", level, kind) for level in (-1, 0, 1, 2) for kind in (1, 2, 3)),
        *((name, level, 1) for name in ("share.version", "streams.version") for level in (0, 1, 2)),
    ):
        update = features.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for version in (1, 2):
            request = features.UpdateFeaturesRequest(feature_updates=(update,), validate_only=True)
            broker.ask(request, version, f"{name} to {level}, type {kind}")


@compare_brokers
def test_partitions_page_by_page(broker: Conversation) -> None:
    def page(
        broker: Conversation, names: tuple[str, ...], limit: int = 2000, start: tuple[str, int] | None = None
    ) -> None:
        cursor = None
        if start is not None:
            cursor = paging.Cursor(topic_name=broker.topic(start[0]), partition_index=start[1])
        request = paging.DescribeTopicPartitionsRequest(
            topics=tuple(paging.TopicRequest(name=broker.topic(name)) for name in names),
            response_partition_limit=limit,
            cursor=cursor,
        )
        broker.ask(request, 0, f"{names} {limit} from {start}")

    broker.create("a", 1)
    broker.create("b", 3)
    broker.create("c", 2)
    for limit in (2000, 1, 0, -1, 2, 3, 4, 6):
        page(broker, ("c", "a", "b", "missing"), limit)
    for start in (("b", 1), ("b", 9), ("c", 0), ("a", 0), ("unknown", 0), ("b", -1)):
        page(broker, ("a", "b", "c"), 2, start)
    page(broker, ("b", "b"), 9)
    page(broker, ("missing", "b"), 1)
