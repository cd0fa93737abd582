"""ListPartitionReassignments: nothing is ever moved."""

import pytest

from spark_kafka_native.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.broker_driver import BrokerDriver


@pytest.mark.parametrize(
    "topics",
    [
        None,
        (),
        (
            ListPartitionReassignmentsTopics(name="t", partition_indexes=(0, 9)),
            ListPartitionReassignmentsTopics(name="missing", partition_indexes=(0,)),
        ),
    ],
)
def test_no_moves(broker: BrokerDriver, topics: tuple[ListPartitionReassignmentsTopics, ...] | None) -> None:
    broker.create("t")
    answer = broker.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, ())
