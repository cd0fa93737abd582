import pytest

from spark_kafka_native.client.consumer.nearest_replica import NearestReplica

pytestmark = pytest.mark.feature("client.rack")

LONG, OVER = 1e9, 0


def test_the_leader_is_read_until_it_names_a_replica() -> None:
    replica = NearestReplica("rack", LONG)
    assert (replica.node_id, replica.rack) == (None, "rack")
    assert not replica.leave()
    assert not replica.end_lease()
    replica.follow(7)
    assert (replica.node_id, replica.rack) == (7, "rack")
    assert not replica.end_lease(), "its time is not over"
    assert replica.node_id == 7


def test_a_replica_that_is_left_is_not_named_again_for_a_while() -> None:
    replica = NearestReplica("rack", LONG)
    replica.follow(7)
    assert replica.leave()
    assert replica.rack == ""
    assert replica.node_id is None


def test_when_its_time_is_over_the_leader_is_asked_again() -> None:
    replica = NearestReplica("rack", OVER)
    replica.follow(7)
    assert replica.node_id == 7, "it is read at least once"
    assert replica.end_lease()
    assert replica.rack == "rack"
    assert replica.node_id is None
    replica.follow(8)
    assert replica.leave()
    assert replica.rack == "rack", "the while is over"
