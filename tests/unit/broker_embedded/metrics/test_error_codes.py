"""Error codes are found wherever an answer has them."""

import dataclasses
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from broker_embedded.metrics.error_codes import error_finder
from spark_kafka_native.protocol.messages import all_requests
from spark_kafka_native.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from spark_kafka_native.protocol.messages.offset_fetch import OffsetFetchResponse
from tests.support.strategies import messages

RESPONSES = sorted({request.response for request in all_requests().values()}, key=lambda cls: cls.__name__)


def by_walking(value: object) -> Counter[int]:
    """Every error code that is not 0, found the slow way."""
    found: Counter[int] = Counter()
    if isinstance(value, tuple):
        for item in value:
            found += by_walking(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if field.name.endswith("error_code") and isinstance(inner, int):
                found[inner] += inner != 0
            else:
                found += by_walking(inner)
    return +found


def by_function(value: Any) -> Counter[int]:
    found: Counter[int] = Counter()

    def add(code: int) -> None:
        found[code] += 1

    error_finder(type(value))(value, add)
    return found


@pytest.mark.parametrize("cls", RESPONSES, ids=lambda cls: cls.__name__)
def test_every_answer(cls: Any) -> None:
    @settings(max_examples=4, suppress_health_check=list(HealthCheck))
    @given(messages(cls, cls.max_version))
    def check(value: Any) -> None:
        assert by_function(value) == by_walking(value)

    check()


def test_errors_of_the_whole_and_of_parts() -> None:
    parts = tuple(PartitionData(partition_index=index, error_code=code) for index, code in enumerate((0, 3, 1, 3)))
    answer = FetchResponse(error_code=70, responses=(FetchableTopicResponse(partitions=parts),))
    assert by_function(answer) == {70: 1, 3: 2, 1: 1}


def test_a_list_that_is_not_there_has_none() -> None:
    assert by_function(OffsetFetchResponse()) == {}
