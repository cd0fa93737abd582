"""What is served and what is advertised: all of a release's APIs but those that this broker is known not to have."""

import pytest

from broker_embedded.config.releases import NOT_SERVED, RELEASE_NAMES, release
from broker_embedded.handlers.support.registry import apis_of, registered_apis
from spark_kafka_native.protocol.messages import REQUESTS


@pytest.mark.parametrize("name", RELEASE_NAMES)
def test_a_release_is_offered_whole_but_for_what_is_known_to_be_missing(name: str) -> None:
    missing = {key for keys in NOT_SERVED.values() for key in keys}
    offered = {key: versions for key, versions in release(name).offered.items() if key not in missing}
    assert {key: api.advertised for key, api in apis_of(name).items()} == offered
    assert list(apis_of(name)) == sorted(offered)


@pytest.mark.parametrize("name", RELEASE_NAMES)
def test_what_a_release_serves_is_served(name: str) -> None:
    for key, api in apis_of(name).items():
        assert api.served == release(name).served(key), api.request.api_name


def test_every_api_is_of_some_release() -> None:
    newest = RELEASE_NAMES[-1]
    assert set(registered_apis()) == set(apis_of(newest))
    missing = {key for keys in NOT_SERVED.values() for key in keys}
    assert set(registered_apis()) & missing == set()
    assert set(registered_apis()) | missing == {key for name in RELEASE_NAMES for key in release(name).offered}


def test_what_is_served_can_be_spoken() -> None:
    for key, api in registered_apis().items():
        for version in range(api.served.first, api.served.last + 1):
            assert version in REQUESTS[key].versions
            assert version in REQUESTS[key].response.versions


def test_every_handler_names_its_versions_in_its_docstring() -> None:
    for api in registered_apis().values():
        module = __import__(api.handler.__module__, fromlist=["handler"])
        versions = "-".join(f"v{version}" for version in dict.fromkeys((api.served.first, api.served.last)))
        first_line = (module.__doc__ or "").splitlines()[0]
        assert first_line.startswith(f"{api.request.api_name} ({api.request.api_key}) {versions}: ")
