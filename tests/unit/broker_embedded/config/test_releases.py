import pytest

from broker_embedded._config.message_format import is_ignored, parse_release, record_magic
from broker_embedded._config.releases import NOT_SERVED, RELEASE_NAMES, Feature, api_names, release
from broker_embedded._config.settings import SettingError
from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from tests.support.requests.every_api import offered_by_real_brokers


def test_every_release_is_known() -> None:
    known = list(offered_by_real_brokers())
    assert list(RELEASE_NAMES) == known[known.index("0.8.2") :]


@pytest.mark.parametrize("name", RELEASE_NAMES)
def test_each_offers_what_its_brokers_did(name: str) -> None:
    offered = {key: (versions.first, versions.last) for key, versions in release(name).offered.items()}
    assert offered == offered_by_real_brokers()[name]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("4.3", "4.3"),
        ("4.3.1", "4.3"),
        (" 2.8.2 ", "2.8"),
        ("0.10.2.1", "0.10.2"),
        ("0.9.0.1", "0.9"),
        ("0.8.2.2", "0.8.2"),
        ("1.0.0", "1.0"),
    ],
)
def test_numbers_as_users_write_them(text: str, name: str) -> None:
    assert release(text).name == name


@pytest.mark.parametrize(
    "text", ["", "4", "0.10", "0.7", "0.8.1", "4.30", "5.0", "4.3.x", "4.3.", "2.8.1.2", "0.10.2.1.1", "trunk", "²"]
)
def test_invalid_releases_are_refused(text: str) -> None:
    with pytest.raises(
        SettingError, match=r"^as\.version: .* is not a release .* Use one of 0\.8\.2, .*, 4\.3, or .* such as 2\.8\.1"
    ):
        release(text)


def test_releases_are_in_order() -> None:
    assert release("0.10.0").since("0.9")
    assert release("2.4").since("2.4")
    assert not release("2.4").since("2.5")


@pytest.mark.parametrize(
    ("text", "offsets", "groups"),
    [
        ("0.8.2", 0, 0),
        ("0.9", 1, 0),
        ("0.10.0", 1, 0),
        ("0.10.1", 1, 1),
        ("2.0", 1, 1),
        ("2.1", 3, 2),
        ("2.2", 3, 2),
        ("2.3", 3, 3),
        ("4.0", 3, 3),
        ("4.1", 4, 3),
        ("4.3", 4, 3),
    ],
)
def test_versions_of_records_in_consumer_offsets(text: str, offsets: int, groups: int) -> None:
    assert (release(text).offset_value_version, release(text).group_value_version) == (offsets, groups)


def test_manners_that_clients_notice() -> None:
    assert [name for name in RELEASE_NAMES if ApiVersionsRequest.api_key not in release(name).offered] == [
        "0.8.2",
        "0.9",
    ]
    assert not release("2.3").names_range_when_refusing
    assert release("2.4").names_range_when_refusing
    assert not release("1.1").answers_before_it_throttles
    assert release("2.0").answers_before_it_throttles
    assert not release("3.9").has_consumer_groups
    assert release("4.0").has_consumer_groups
    assert [name for name in RELEASE_NAMES if release(name).has_kraft] == ["4.0", "4.1", "4.2", "4.3"]


def test_produce_is_offered_but_not_served_from_0_by_kafka_4() -> None:
    assert (str(release("3.9").served(0)), str(release("3.9").offered[0])) == ("0-11", "0-11")
    assert (str(release("4.3").served(0)), str(release("4.3").offered[0])) == ("3-13", "0-13")
    assert str(release("4.3").served(1)) == "4-18"


@pytest.mark.parametrize(
    ("name", "version"), [("0.8.2", "0.8.2"), ("0.10.1", "0.10.1"), ("2.8", "2.8"), ("3.9", "3.0"), ("4.3", "3.0")]
)
def test_the_message_format_of_each_release(name: str, version: str) -> None:
    assert release(name).message_format == version


def test_features_are_those_of_kraft_as_far_as_they_are_here() -> None:
    assert release("3.9").features == ()
    found = {feature.name: feature for feature in release("4.3").features}
    assert found["metadata.version"] == Feature(name="metadata.version", min_level=7, max_level=30, level=30)
    assert found["group.version"] == Feature(name="group.version", min_level=0, max_level=1, level=1)
    assert found["transaction.version"] == Feature(name="transaction.version", min_level=0, max_level=2, level=2)
    assert [level.level for level in release("4.0").features if level.name == "metadata.version"] == [25]


def test_apis_have_their_names() -> None:
    names = api_names()
    assert {key: names[key] for key in all_requests()} == {
        key: request.api_name for key, request in all_requests().items()
    }
    assert set(names) == {key for name in RELEASE_NAMES for key in release(name).offered}


def test_not_served_lists_each_api_version_once() -> None:
    keys = [key for keys in NOT_SERVED.values() for key in keys]
    assert len(set(keys)) == len(keys)
    assert set(keys) <= {key for name in RELEASE_NAMES for key in release(name).offered}


@pytest.mark.parametrize(
    ("release", "magic"),
    [
        ("0.8.0", 0),
        ("0.8.2.X", None),
        ("0.9.0.1", 0),
        ("0.9", 0),
        ("0.10.0-IV0", 1),
        ("0.10.2", 1),
        ("0.10.2-IV0", 1),
        ("0.11.0-IV0", 2),
        ("1.0", 2),
        ("2.8-IV1", 2),
        ("3.0-IV1", 2),
        ("4.3", 2),
        ("0.7", None),
        ("", None),
        ("latest", None),
        ("2", None),
    ],
)
def test_releases_and_their_formats(release: str, magic: int | None) -> None:
    if magic is None:
        with pytest.raises(SettingError, match=r"a\.key: .* is not a release of Kafka since 0\.8"):
            parse_release("a.key", release)
    else:
        assert record_magic(release, "") == magic


@pytest.mark.parametrize(
    ("message_format", "protocol", "magic"),
    [
        ("0.9.0", "0.10.2", 0),
        ("2.0", "0.10.2", 1),
        ("3.0-IV1", "0.9.0", 0),
        ("0.10.0", "2.8", 1),
        ("0.10.0", "3.0", 2),
        ("0.9.0", "3.9-IV0", 2),
    ],
)
def test_the_brokers_own_protocol_bounds_it_or_has_it_ignored(message_format: str, protocol: str, magic: int) -> None:
    assert record_magic(message_format, protocol) == magic
    assert is_ignored(protocol) == protocol.startswith("3")


def test_without_a_protocol_nothing_is_ignored() -> None:
    assert not is_ignored("")
