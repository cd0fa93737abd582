"""Harnesses that launch Apache Kafka launch the bundled broker when they are given our KAFKA_HOME."""

import subprocess
from pathlib import Path

import pytest

from broker_embedded._tools.home import make_home
from tests.support.programs.toolchains import ToolMissing, python_environment

pytestmark = pytest.mark.interop

HARNESS = """
import itertools, pytest, socket, time
from kafka import KafkaConsumer, KafkaProducer
from pytest_kafka import make_kafka_server, make_zookeeper_process
from pytest_kafka.constants import KAFKA_SERVER_CONFIG_TEMPLATE, ZOOKEEPER_CONFIG_TEMPLATE

BIN = {bin_dir!r}
ON_LOOPBACK = KAFKA_SERVER_CONFIG_TEMPLATE.replace("PLAINTEXT://:", "PLAINTEXT://127.0.0.1:")
zookeeper = make_zookeeper_process(BIN + "/zookeeper-server-start.sh")
kafka_server = make_kafka_server(
    BIN + "/kafka-server-start.sh", "zookeeper", kafka_config_template=ON_LOOPBACK, timeout=60
)

def test_records_go_round(kafka_server):
    process, port = kafka_server
    servers = "127.0.0.1:%d" % port
    producer = KafkaProducer(bootstrap_servers=servers)
    for number in range(3):
        producer.send("t", b"%d" % number).get(30)
    producer.close()
    consumer = KafkaConsumer("t", bootstrap_servers=servers, auto_offset_reset="earliest", group_id="g")
    assert [record.value for record in itertools.islice(consumer, 3)] == [b"0", b"1", b"2"]
    consumer.close()
    assert process.poll() is None

def test_zookeeper_stores_data(zookeeper):
    process, port = zookeeper
    response, deadline = b"", time.monotonic() + 60
    while b"Node count: " not in response and time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(b"srvr")
                response = connection.recv(4096)
        except OSError:
            time.sleep(0.05)
    assert b"Mode: standalone" in response
    assert process.poll() is None
"""


def test_pytest_kafka(tmp_path: Path) -> None:
    try:
        python = python_environment("pytest-kafka", ["kafka-python>=2.2,<3", "pytest>=8.3", "pytest-kafka==0.8.1"])
    except ToolMissing as missing:
        pytest.skip(str(missing))
    make_home(tmp_path / "home")
    story = tmp_path / "test_story.py"
    story.write_text(HARNESS.format(bin_dir=str(tmp_path / "home" / "bin")))
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(story)], capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
