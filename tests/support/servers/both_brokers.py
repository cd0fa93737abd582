"""The bundled broker and Apache Kafka with settings of a test's own, one after the other."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from broker_embedded.testing import BrokerProcess
from tests.support.report import skip_if
from tests.support.servers.apache_kafka import KAFKA_VERSION, ApacheKafka, apache_kafka_unavailable

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


def take_over(source: Path, target: Path, partitions: Mapping[str, int]) -> None:
    """Put so many partitions of each topic in the place of others. A topic's id stays the target's if it has one."""
    for topic, count in partitions.items():
        for index in range(count):
            directory = target / f"{topic}-{index}"
            metadata = directory / "partition.metadata"
            kept = metadata.read_bytes() if metadata.exists() else None
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(source / directory.name, directory)
            if kept is not None:
                metadata.write_bytes(kept)
