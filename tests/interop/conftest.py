"""What the interop tests share: both brokers to talk to, Kafka's tools, and a seed for what is done at random."""

import os
import random
from collections.abc import Callable, Iterator, Mapping

import pytest

from broker_embedded.testing import EmbeddedBroker
from tests.support.programs.kafka_tools import KafkaTools
from tests.support.programs.toolchains import ToolMissing
from tests.support.report import skip_if
from tests.support.requests.conversation import Conversation
from tests.support.requests.same_responses import Both
from tests.support.servers.apache_kafka import SMALL_SETTINGS, ApacheKafka, apache_kafka_unavailable
from tests.support.servers.brokers import RECORDS_STAY


@pytest.fixture(scope="session")
def kafka_broker_settings() -> Mapping[str, object]:
    """What Apache Kafka has in these tests, too."""
    threads = ("background.threads", "num.io.threads", "num.network.threads")
    return {**RECORDS_STAY, **{key: SMALL_SETTINGS[key] for key in threads}}


@pytest.fixture
def both(kafka_broker: EmbeddedBroker, apache_kafka: ApacheKafka) -> Iterator[Both]:
    """The bundled broker and Apache Kafka, for the same requests."""
    ours, theirs = Conversation(kafka_broker.bootstrap_servers), Conversation(apache_kafka.bootstrap_servers)
    yield Both(ours, theirs)
    ours.close()
    theirs.close()


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    """Kafka's command line tools; skips where they cannot be had."""
    skip_if(apache_kafka_unavailable())
    try:
        made = KafkaTools()
    except ToolMissing as error:
        pytest.skip(f"Kafka's tools are not available: {error}")
    yield made
    made.close()


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """The seed for what a test does at random: `SEED` of the environment, or any. Shown when the test fails."""
    number = int(os.environ.get("SEED") or random.SystemRandom().randrange(2**31))
    record_property("SEED", number)
    print(f"SEED={number}")  # pytest shows it with a failure
    return number
