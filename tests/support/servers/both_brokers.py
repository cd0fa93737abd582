"""The bundled broker and Apache Kafka with settings of a test's own, one after the other."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from broker_embedded.testing import BrokerProcess
from tests.support.servers.apache_kafka import KAFKA_VERSION, ApacheKafka, apache_kafka_unavailable
from tests.support.skipping import skip_if

BOTH = ("bundled", pytest.param("apache", marks=pytest.mark.interop))
"""The params of a fixture that yields what `running_broker` makes of each."""


def kafka_of_its_own(scope: Literal["function", "module", "session"] = "module", **options: Any) -> Any:
    """A fixture: an Apache Kafka that its tests may stop, start and fill as they like. Skips where it cannot be had."""

    @pytest.fixture(scope=scope)
    def kafka() -> Iterator[ApacheKafka]:
        skip_if(apache_kafka_unavailable(options.get("release", KAFKA_VERSION)))
        with ApacheKafka(**options) as running:
            yield running

    return kafka


@contextmanager
def running_broker(
    kind: str, directory: Path, settings: Mapping[str, str], *, transaction_version: int | None = None
) -> Iterator[BrokerProcess | ApacheKafka]:
    """A broker of one of `BOTH` kinds, the bundled one with its data in `directory`; skips where it cannot be had.

    `transaction_version` is the level of the feature, each broker's own if it is None.
    """
    if kind == "bundled":
        level = {} if transaction_version is None else {"transaction.version": str(transaction_version)}
        with BrokerProcess(directory, settings={**settings, **level}) as broker:
            yield broker
        return
    skip_if(apache_kafka_unavailable())
    feature = () if transaction_version is None else ("--feature", f"transaction.version={transaction_version}")
    with ApacheKafka(settings=settings, format_options=feature) as kafka:
        yield kafka
