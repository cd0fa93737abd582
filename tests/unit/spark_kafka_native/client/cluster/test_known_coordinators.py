from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType, KnownCoordinators
from spark_kafka_native._client.cluster.metadata import Node

GROUP, TRANSACTION = CoordinatorType.GROUP, CoordinatorType.TRANSACTION
ONE, TWO = (Node(node_id=number, host="h", port=9092) for number in (1, 2))


def test_a_group_and_a_transactional_id_may_have_the_same_name() -> None:
    known = KnownCoordinators()
    known.learn(GROUP, "a", ONE)
    known.learn(TRANSACTION, "a", TWO)
    assert (known.get(GROUP, "a"), known.get(TRANSACTION, "a"), known.get(GROUP, "b")) == (ONE, TWO, None)
    known.clear()
    assert known.get(GROUP, "a") is None


def test_forget_keeps_a_coordinator_that_was_found_since() -> None:
    known = KnownCoordinators()
    known.learn(GROUP, "a", TWO)
    known.forget(GROUP, "a", ONE)
    assert known.get(GROUP, "a") == TWO
    known.forget(GROUP, "a", TWO)
    known.forget(GROUP, "a", TWO)
    assert known.get(GROUP, "a") is None


def test_a_lost_broker_coordinates_nothing() -> None:
    known = KnownCoordinators()
    known.learn(GROUP, "a", ONE)
    known.learn(GROUP, "b", TWO)
    known.forget_broker(ONE.node_id)
    assert (known.get(GROUP, "a"), known.get(GROUP, "b")) == (None, TWO)


def test_the_number_of_known_coordinators_is_bounded() -> None:
    known = KnownCoordinators(most=3)
    for number in range(10):
        known.learn(TRANSACTION, str(number), ONE)
    assert len(known) == 3
    assert known.get(TRANSACTION, "9") == ONE
    assert known.get(TRANSACTION, "0") is None
