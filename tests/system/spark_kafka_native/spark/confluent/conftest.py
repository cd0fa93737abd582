from collections.abc import Iterator

import pytest

from tests.support.spark.schema_registry import StubRegistry


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    pytest.importorskip("confluent_kafka.schema_registry")
    pytest.importorskip("fastavro")
    with StubRegistry() as made:
        yield made
