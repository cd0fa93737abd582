import pytest

from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.messages.fetch import FetchRequest, FetchTopic
from spark_kafka_native._protocol.schema import VersionRange, fields_of


def test_requests_and_responses_know_each_other() -> None:
    for key, request in all_requests().items():
        assert request.response.request is request
        assert request.api_key == request.response.api_key == key
        assert request.versions == request.response.versions
        assert request.flexible == request.response.flexible


def test_fields_of_names_what_the_codec_uses() -> None:
    specs = {spec.name: spec for spec in fields_of(FetchRequest)}
    assert str(specs["replica_id"].versions) == "0-14"
    assert specs["cluster_id"].tag == 0
    assert specs["topics"].struct is FetchTopic
    assert specs["topics"].is_array
    assert specs["isolation_level"].primitive == "int8"


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3", [3], [2, 4]), ("0-4", [0, 4], [5]), ("3+", [3, 99], [2]), ("none", [], [0, 1])],
)
def test_version_ranges(text: str, inside: list[int], outside: list[int]) -> None:
    parsed = VersionRange.parse(text)
    assert str(parsed) == text
    assert all(version in parsed for version in inside)
    assert not any(version in parsed for version in outside)


@pytest.mark.parametrize(
    ("one", "other", "both"), [("0-4", "2-9", "2-4"), ("3+", "0-5", "3-5"), ("0-2", "3-13", "none"), ("1", "1", "1")]
)
def test_versions_that_are_in_two_ranges(one: str, other: str, both: str) -> None:
    for left, right in ((one, other), (other, one)):
        assert str(VersionRange.parse(left).within(VersionRange.parse(right))) == both
