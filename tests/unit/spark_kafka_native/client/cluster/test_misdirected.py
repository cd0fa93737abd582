import pytest

from spark_kafka_native._client.cluster.misdirected import is_misdirected
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from spark_kafka_native._protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from spark_kafka_native._protocol.messages.list_groups import ListGroupsResponse
from spark_kafka_native._protocol.schema import Response


def fetch(*codes: int) -> FetchResponse:
    parts = tuple(PartitionData(partition_index=index, error_code=code) for index, code in enumerate(codes))
    return FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=parts),))


@pytest.mark.parametrize(
    "response",
    [
        fetch(0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        CreateTopicsResponse(topics=(CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER),)),
        ListGroupsResponse(error_code=ErrorCode.NOT_COORDINATOR),
    ],
)
def test_another_broker_is_recognized_by_the_error_code(response: Response) -> None:
    assert is_misdirected(response)


@pytest.mark.parametrize("response", [fetch(), fetch(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ListGroupsResponse()])
def test_other_responses_are_those_of_the_right_broker(response: Response) -> None:
    assert not is_misdirected(response)
