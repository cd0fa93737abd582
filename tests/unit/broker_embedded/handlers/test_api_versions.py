import pytest

from broker_embedded._config.releases import RELEASE_NAMES, release
from broker_embedded._handlers.api_versions import unsupported_version
from broker_embedded._handlers.support.registry import CloseConnection, registered_apis
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from spark_kafka_native._protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.broker.driver import BrokerDriver
from tests.support.requests.every_api import offered_by_real_brokers

SPEAKING = [name for name in RELEASE_NAMES if ApiVersionsRequest.api_key in release(name).offered]


def asked(broker: BrokerDriver, version: int) -> ApiVersionsResponse:
    return broker.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1.0"), version)


@pytest.mark.parametrize("version", range(5))
def test_the_ranges_come_in_every_version(broker: BrokerDriver, version: int) -> None:
    response = asked(broker, version)
    assert response.error_code == 0
    ranges = {item.api_key: (item.min_version, item.max_version) for item in response.api_keys}
    assert ranges[18] == (0, 4)
    assert ranges[0] == (0, 13)
    assert list(ranges) == sorted(ranges)


@pytest.mark.parametrize("name", SPEAKING)
def test_the_api_versions_of_a_release_are_those_of_its_brokers(broker: BrokerDriver, name: str) -> None:
    response = asked(broker.passing_for(name), 0)
    expected = {key: versions for key, versions in offered_by_real_brokers()[name].items() if key in registered_apis()}
    assert {item.api_key: (item.min_version, item.max_version) for item in response.api_keys} == expected


def test_features_with_minimum_level_0_are_listed_since_v4(broker: BrokerDriver) -> None:
    supported = {item.name: (item.min_version, item.max_version) for item in asked(broker, 3).supported_features}
    assert supported == {"metadata.version": (7, 30)}
    response = asked(broker, 4)
    assert {item.name: (item.min_version, item.max_version) for item in response.supported_features} == {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 30),
        "transaction.version": (0, 2),
    }
    assert {item.name: item.max_version_level for item in response.finalized_features} == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 30,
        "transaction.version": 2,
    }
    assert response.finalized_features_epoch >= 0


def test_a_changed_feature_level_is_listed_with_a_later_epoch(broker: BrokerDriver) -> None:
    before = asked(broker, 4)
    for level in (1, 0, 2):
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=1 + (level < 2))
        assert broker.ask(UpdateFeaturesRequest(feature_updates=(update,)), 2).error_code == 0
        for _ in range(2):
            response = asked(broker, 4)
            found = {item.name: item.max_version_level for item in response.finalized_features}
            assert found.get("transaction.version", 0) == level
            assert response.finalized_features_epoch > before.finalized_features_epoch
            broker.restart()
        before = response


@pytest.mark.parametrize(("name", "epoch"), [("2.4", -1), ("2.7", 0), ("3.9", 0)])
def test_releases_with_zookeeper_have_no_features(broker: BrokerDriver, name: str, epoch: int) -> None:
    response = asked(broker.passing_for(name), 3)
    assert (response.supported_features, response.finalized_features) == ((), ())
    assert response.finalized_features_epoch == epoch


@pytest.mark.parametrize("name", ["0.8.2", "0.9"])
def test_the_oldest_releases_close_the_connection(broker: BrokerDriver, name: str) -> None:
    with pytest.raises(CloseConnection, match="unknown API key 18"):
        asked(broker.passing_for(name), 0)


@pytest.mark.parametrize(
    ("name", "ranges"), [("0.10.0", []), ("2.3", []), ("2.4", [(18, 0, 3)]), ("4.3", [(18, 0, 4)])]
)
def test_the_response_to_a_version_that_is_too_new_names_the_range_since_2_4(
    name: str, ranges: list[tuple[int, int, int]]
) -> None:
    response = unsupported_version(release(name))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(item.api_key, item.min_version, item.max_version) for item in response.api_keys] == ranges


@pytest.mark.parametrize(
    ("name", "software_version"), [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1-"), ("a", "1\n")]
)
def test_invalid_client_software_names_are_refused(broker: BrokerDriver, name: str, software_version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    assert broker.ask(request, 3).error_code == ErrorCode.INVALID_REQUEST
    assert broker.ask(request, 2).error_code == 0


def test_valid_client_software_names(broker: BrokerDriver) -> None:
    for name, software_version in [
        ("apache-kafka-java", "4.3.1"),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.1"),
        ("a", "1"),
    ]:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
        assert broker.ask(request, 4).error_code == 0
