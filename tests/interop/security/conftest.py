"""One Apache Kafka with all its secure listeners for this directory."""

from collections.abc import Iterator

import pytest

from tests.support.apache_kafka import apache_kafka_unavailable
from tests.support.secure_kafka import SecureKafka, keytool_unavailable, secure_kafka


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    reason = apache_kafka_unavailable() or keytool_unavailable()
    if reason is not None:
        pytest.skip(reason)
    with secure_kafka(tmp_path_factory.mktemp("secure")) as cluster:
        yield cluster
