from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded._handlers.support.registry import apis_of, registered_apis
from broker_embedded._metrics.error_codes import error_finder
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages import all_requests
from tests.support.requests.every_api import GOOD_REQUESTS, Asking
from tests.support.requests.raw_client import RawClient

RELEASES = ("4.3", "3.9", "2.8", "0.8.2")
"""Together they have every version that is served. Each gets the requests that those before it do not have."""
MADE_BEFORE = {20, 37}
"""APIs that change a topic."""

EXPECTED_ERRORS = {
    11: ErrorCode.MEMBER_ID_REQUIRED,
    12: ErrorCode.UNKNOWN_MEMBER_ID,
    13: ErrorCode.UNKNOWN_MEMBER_ID,
    14: ErrorCode.UNKNOWN_MEMBER_ID,
    17: ErrorCode.ILLEGAL_SASL_STATE,
    24: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    25: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    26: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    28: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    29: ErrorCode.SECURITY_DISABLED,
    36: ErrorCode.ILLEGAL_SASL_STATE,
    42: ErrorCode.GROUP_ID_NOT_FOUND,
    43: ErrorCode.ELECTION_NOT_NEEDED,
    64: ErrorCode.BROKER_ID_NOT_REGISTERED,
    65: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
}
"""The error of an API whose request names a member, producer or broker that does not exist."""
JOIN_GROUP, NEEDS_MEMBER_ID_SINCE = 11, 4


def expected_errors(key: int, version: int) -> set[ErrorCode]:
    """The error codes in the response to a request of `GOOD_REQUESTS`."""
    if key not in EXPECTED_ERRORS or (key == JOIN_GROUP and version < NEEDS_MEMBER_ID_SINCE):
        return set()
    return {EXPECTED_ERRORS[key]}


@pytest.fixture(scope="module", params=RELEASES)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    settings = {"as.version": request.param, "offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}
    directory: Path = tmp_path_factory.mktemp("release")
    with EmbeddedBroker(directory, topics={"t": 2}, settings=settings) as running:
        yield running


def served_by(release: str) -> set[tuple[int, int]]:
    return {
        (key, version)
        for key, api in apis_of(release).items()
        for version in range(api.served.first, api.served.last + 1)
    }


def test_the_releases_have_every_version() -> None:
    seen = set().union(*map(served_by, RELEASES))
    assert seen == {
        (key, version)
        for key, api in registered_apis().items()
        for version in range(api.served.first, api.served.last + 1)
    }
    assert GOOD_REQUESTS.keys() == registered_apis().keys()


def test_every_api_is_served_in_every_version(broker: EmbeddedBroker) -> None:
    inner = broker._server.broker
    release, topic_id = inner.config.release.name, inner.image.topics["t"].topic_id
    before = RELEASES[: RELEASES.index(release)]
    asked = sorted(served_by(release).difference(*map(served_by, before)))
    with RawClient(broker.bootstrap_servers) as client:
        for number, (key, version) in enumerate(asked):
            name = f"topic-{key}-{version}"
            if key in MADE_BEFORE:
                broker.create_topic(name)
            response = client.ask(GOOD_REQUESTS[key](Asking(version, topic_id, name)), version, correlation_id=number)
            assert type(response) is all_requests()[key].response
            errors: set[int] = set()
            error_finder(type(response))(response, errors.add)
            assert errors == expected_errors(key, version), (all_requests()[key].api_name, version, response)
    assert sum(api.requests for api in inner.metrics().apis.values()) == len(asked)
