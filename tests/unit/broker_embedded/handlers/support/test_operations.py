"""What clients may do, as bits."""

from broker_embedded.handlers.support.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS


def test_they_are_what_apache_kafka_answers_without_an_authorizer() -> None:
    assert (TOPIC_OPERATIONS, CLUSTER_OPERATIONS, NOT_ASKED) == (3576, 8096, -2147483648)
