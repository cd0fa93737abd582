"""trivup, with which librdkafka and confluent-kafka-python start Kafka for their tests, starts the bundled broker.

It takes a Kafka from the archive that `KAFKA_URL` names. Its own classes write the settings and the JAAS file, format
the storage, start the broker, make the users of SCRAM and stop the broker.
"""

import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from dirty_equals import HasLen

from broker_embedded._tools.home import make_home
from tests.support.programs.toolchains import ToolMissing, python_environment
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

# trivup wants pkg_resources, which later releases of setuptools have no more.
REQUIREMENTS = ["trivup==0.12.2", "setuptools<81", "confluent-kafka==2.16.0"]

PROGRAM = """
import sys
from confluent_kafka import Consumer, Producer
from trivup.apps.KafkaBrokerApp import KafkaBrokerApp
from trivup.clusters.KafkaCluster import KafkaCluster

created = KafkaBrokerApp.create_file
def create_on_loopback(self, path, unique=False, data=None, pathtype="temp"):
    return created(self, path, unique, data.replace("0.0.0.0", "127.0.0.1"), pathtype)
KafkaBrokerApp.create_file = create_on_loopback

mechanism = sys.argv[1] if sys.argv[1:] else ""
users = "alice=hunter2,bob=hunter3"
cluster = KafkaCluster(
    version="4.3.1", kraft=True, broker_cnt=1, sasl_mechanism=mechanism, sasl_users=users, debug=True, cleanup=False
)
try:
    cluster.wait_operational(60)
    settings = cluster.client_conf()
    producer = Producer(settings)
    producer.produce("t", b"hello")
    assert producer.flush(30) == 0
    for user, password in (("alice", "hunter2"), ("bob", "hunter3")) if mechanism else [(None, None)]:
        login = {"sasl.username": user, "sasl.password": password} if user else {}
        consumer = Consumer({**settings, **login, "group.id": f"g-{user}", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        message = consumer.poll(30)
        assert message is not None and message.error() is None, message
        print("READ", message.value().decode(), user or "anonymous")
        consumer.close()
finally:
    cluster.stop()
"""


@pytest.mark.parametrize(
    ("mechanism", "users"), [("", ["anonymous"]), ("PLAIN", ["alice", "bob"]), ("SCRAM-SHA-256", ["alice", "bob"])]
)
def test_a_cluster_of_trivup(mechanism: str, users: list[str], tmp_path: Path) -> None:
    try:
        python = python_environment("trivup", REQUIREMENTS)
    except ToolMissing as missing:
        pytest.skip(str(missing))
    make_home(tmp_path / "kafka")
    with tarfile.open(tmp_path / "kafka.tgz", "w:gz") as archive:
        archive.add(tmp_path / "kafka", "kafka")
    environment = {
        **os.environ,
        "KAFKA_URL": (tmp_path / "kafka.tgz").as_uri(),
        "TRIVUP_ROOT": str(tmp_path / "trivup"),
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [str(python), "-c", PROGRAM, *([mechanism] if mechanism else [])],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=110,
        check=False,
        cwd=tmp_path,
    )
    logs = "".join(path.read_text() for path in tmp_path.glob("trivup/**/std*.log"))
    assert done.returncode == 0, done.stdout + logs
    read = [line for line in done.stdout.splitlines() if line.startswith("READ")]
    assert read == [f"READ hello {user}" for user in users], done.stdout + logs
    # trivup has waited for the shell that it started the script with.
    eventually(lambda: list(tmp_path.glob("trivup/**/logs/.kafka_cleanshutdown")), HasLen(1))
