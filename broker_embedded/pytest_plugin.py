"""Fixtures that give tests a broker or a ZooKeeper server, each imported and started on first use. See docs/testing.md.

    def test_mine(kafka_broker, kafka_topic, kafka_faults):
        kafka_faults.fail("Produce", "REQUEST_TIMED_OUT", times=1, topic=kafka_topic)
        ...

    @pytest.mark.embedded_broker(topics={"orders": 3}, settings={"num.partitions": 4})
    def test_with_a_broker_of_its_own(embedded_broker):
        embedded_broker.advance(days=8)

``kafka_broker`` is shared by the whole session; ``kafka_topic`` and ``kafka_prefix`` isolate its tests, and
``kafka_faults`` are removed after the test. ``embedded_broker`` is for one test.
``zookeeper_server`` is shared by the whole session, and ``zookeeper_connect`` isolates its tests.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from broker_embedded.testing import ControlledBroker, EmbeddedBroker, EmbeddedZooKeeper, Faults

_MARK: Final = "embedded_broker"
_KIND: Final = "process"
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(topics=, settings=, users=, clock=, control=, process=False): the broker of the fixture {_MARK}; "
        "process=True runs it in a process of its own",
    )


@pytest.fixture(scope="session")
def kafka_broker_settings() -> Mapping[str, object]:
    """Settings of ``kafka_broker``, by Kafka's names. Define a fixture of this name to have others.

    Unless they say otherwise, ``group.initial.rebalance.delay.ms`` is 0, as with every broker for tests.
    """
    return {}


@pytest.fixture(scope="session")
def kafka_broker_users() -> Mapping[str, str]:
    """Users of ``kafka_broker`` and their passwords. Define a fixture of this name to have some.

    They log in at its listener SASL_PLAINTEXT.
    """
    return {}


@pytest.fixture(scope="session")
def kafka_broker(
    kafka_broker_settings: Mapping[str, object], kafka_broker_users: Mapping[str, str]
) -> "Iterator[EmbeddedBroker]":
    """A running broker for the whole session, as `broker_embedded.testing.EmbeddedBroker`."""
    from broker_embedded.testing import EmbeddedBroker  # noqa: PLC0415  # other test suites start faster without it

    with EmbeddedBroker(settings=kafka_broker_settings, users=kafka_broker_users) as broker:
        yield broker


@pytest.fixture
def kafka_prefix(kafka_broker: "EmbeddedBroker") -> Iterator[str]:
    """A prefix for the names of a test's topics and groups. Topics with it are deleted after the test."""
    prefix = f"test-{next(_numbers)}-"
    yield prefix
    for topic in kafka_broker.topics():
        if topic.startswith(prefix):
            kafka_broker.delete_topic(topic)


@pytest.fixture
def kafka_topic(kafka_broker: "EmbeddedBroker") -> str:
    """The name of a new topic with one partition."""
    name = f"test-topic-{next(_numbers)}"
    kafka_broker.create_topic(name)
    return name


@pytest.fixture
def kafka_faults(kafka_broker: "EmbeddedBroker") -> "Iterator[Faults]":
    """The faults of ``kafka_broker``, which are removed after the test."""
    kafka_broker.faults.clear()
    yield kafka_broker.faults
    kafka_broker.faults.clear()


@pytest.fixture
def embedded_broker(request: pytest.FixtureRequest) -> "Iterator[ControlledBroker]":
    """A broker for one test, as its mark ``embedded_broker`` describes it."""
    from broker_embedded.testing import BrokerProcess, EmbeddedBroker  # noqa: PLC0415  # other test suites start faster without it

    wanted = _wanted(request)
    kind = BrokerProcess if wanted.pop(_KIND, False) else EmbeddedBroker
    if kind is BrokerProcess:
        wanted.setdefault("control", True)
    with kind(**wanted) as broker:
        yield broker


@pytest.fixture(scope="session")
def zookeeper_server() -> "Iterator[EmbeddedZooKeeper]":
    """A running ZooKeeper server for the whole session. An error: pyspark or Java is missing."""
    from broker_embedded.testing import EmbeddedZooKeeper  # noqa: PLC0415  # other test suites start faster without it

    with EmbeddedZooKeeper() as server:
        yield server


@pytest.fixture
def zookeeper_connect(zookeeper_server: "EmbeddedZooKeeper") -> str:
    """The address of ``zookeeper_server`` with a chroot for this test, such as ``127.0.0.1:2181/test-3``.

    The node of the chroot does not exist: the test or its broker creates it.
    """
    return f"{zookeeper_server.connect_string}/test-{next(_numbers)}"


def _wanted(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of a test's marks. Those of the function override those of its class and module."""
    wanted: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(_MARK))):
        if mark.args:
            raise pytest.UsageError(f"@pytest.mark.{_MARK} takes only keyword arguments")
        for name, value in mark.kwargs.items():
            merges = isinstance(value, Mapping) and isinstance(wanted.get(name), Mapping)
            wanted[name] = {**wanted[name], **value} if merges else value
    return wanted
