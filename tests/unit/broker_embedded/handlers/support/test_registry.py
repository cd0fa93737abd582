from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from broker_embedded import _handlers
from broker_embedded._config.releases import NOT_SERVED, RELEASE_NAMES, release
from broker_embedded._coordinator.groups import Groups
from broker_embedded._handlers.support.registry import Api, MissingComponent, RequestContext, apis_of, registered_apis
from broker_embedded._metadata.topics import Topics
from broker_embedded._platform.platform import FileSystem
from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from spark_kafka_native._protocol.schema import Response
from tests.support.broker.driver import NODE, BrokerDriver


@pytest.mark.parametrize("name", RELEASE_NAMES)
def test_a_release_is_offered_whole_but_for_what_is_known_to_be_missing(name: str) -> None:
    missing = {key for keys in NOT_SERVED.values() for key in keys}
    offered = {key: versions for key, versions in release(name).offered.items() if key not in missing}
    assert {key: api.advertised for key, api in apis_of(name).items()} == offered
    assert list(apis_of(name)) == sorted(offered)


@pytest.mark.parametrize("name", RELEASE_NAMES)
def test_every_api_of_a_release_is_served(name: str) -> None:
    for key, api in apis_of(name).items():
        assert api.served == release(name).served(key), api.request.api_name


def test_every_api_is_of_some_release() -> None:
    newest = RELEASE_NAMES[-1]
    assert set(registered_apis()) == set(apis_of(newest))
    missing = {key for keys in NOT_SERVED.values() for key in keys}
    assert set(registered_apis()) & missing == set()
    assert set(registered_apis()) | missing == {key for name in RELEASE_NAMES for key in release(name).offered}


def test_every_served_version_can_be_encoded() -> None:
    for key, api in registered_apis().items():
        for version in range(api.served.first, api.served.last + 1):
            assert version in all_requests()[key].versions
            assert version in all_requests()[key].response.versions


def test_every_handler_names_its_versions_in_its_docstring() -> None:
    for api in registered_apis().values():
        module = __import__(api.handler.__module__, fromlist=["handler"])
        versions = "-".join(f"v{version}" for version in dict.fromkeys((api.served.first, api.served.last)))
        first_line = (module.__doc__ or "").splitlines()[0]
        assert first_line.startswith(f"{api.request.api_name} ({api.request.api_key}) {versions}: ")


def test_every_module_registers_one_api() -> None:
    modules = Counter(api.handler.__module__.rpartition(".")[2] for api in registered_apis().values())
    files = Path(_handlers.__file__).parent.glob("*.py")
    assert modules == Counter(file.stem for file in files if file.stem != "__init__")


def test_an_api_is_bound_to_the_components_of_its_handlers_parameters(broker: BrokerDriver) -> None:
    def handler(_request: HeartbeatRequest, _context: RequestContext, topics: Topics, groups: Groups) -> Response:
        assert (topics, groups) == (broker.broker.topics, broker.broker.groups)
        return HeartbeatResponse(throttle_time_ms=7)

    api = Api.of(HeartbeatRequest, "0-4", handler).bind(broker.broker.components())
    response = api.handler(HeartbeatRequest(), RequestContext(version=4, client_id="test", node=NODE))
    assert response == HeartbeatResponse(throttle_time_ms=7)


def test_a_handler_whose_component_does_not_exist_is_refused_at_the_start(broker: BrokerDriver) -> None:
    def handler(_request: HeartbeatRequest, _context: RequestContext, topics: Topics, speed: Decimal) -> Response:
        raise AssertionError((topics, speed))

    api = Api.of(HeartbeatRequest, "0-4", handler)
    with pytest.raises(MissingComponent, match=rf"^{__name__}: .*Decimal.* of the parameter speed$"):
        api.bind(broker.broker.components())


def test_every_component_has_the_type_of_a_handlers_parameter(broker: BrokerDriver) -> None:
    for wanted, component in broker.broker.components().items():
        assert wanted is FileSystem or isinstance(component, wanted), wanted
