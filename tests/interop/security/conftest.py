"""One Apache Kafka with all its secure listeners for this directory."""

from collections.abc import Iterator

import pytest

from tests.support.report import skip_if
from tests.support.servers.apache_kafka import apache_kafka_unavailable
from tests.support.servers.secure_kafka import SecureKafka, keytool_unavailable, secure_kafka


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    skip_if(apache_kafka_unavailable() or keytool_unavailable())
    with secure_kafka(tmp_path_factory.mktemp("secure")) as cluster:
        yield cluster
