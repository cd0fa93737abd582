"""The session tests once more, through Spark Connect: the client in one process, Spark and the data source in another.

They run in a pytest of their own, because a process has either a Spark or a client of one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess
from tests.conftest import OTHER_CLUSTER, REMOTE, REPOSITORY

SESSION_TESTS = Path("tests", "system", "spark_kafka_native", "spark")

pytestmark = [pytest.mark.interop, pytest.mark.spark]


@pytest.mark.feature("more.connect")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("file", ["test_batch_session.py", "test_stream_session.py"])
def test_session_tests_through_spark_connect(file: str, bundled_broker: BrokerProcess) -> None:
    pytest.importorskip("grpc", reason="Spark Connect's client needs pyspark[connect]")
    pytest.importorskip("grpc_status", reason="Spark Connect's client needs pyspark[connect]")
    response = subprocess.run(
        # Spark Connect warns of settings that it takes at its start only.
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-W", "default", "--tb=short", SESSION_TESTS / file],
        env={**os.environ, REMOTE: "local[2]", OTHER_CLUSTER: bundled_broker.bootstrap_servers},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert response.returncode == 0, response.stdout[-8000:]
    assert " passed" in response.stdout
    assert " skipped" not in response.stdout
