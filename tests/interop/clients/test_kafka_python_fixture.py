"""kafka-python's own fixture, from its source distribution on PyPI, starts the bundled broker and tests SASL with it.

The fixture formats the storage, writes the JAAS file, starts the broker by `kafka-run-class.sh kafka.Kafka` and lists
topics by `kafka-topics.sh`. The distribution lacks its class of processes and its templates of settings; those here
stand in for them.
"""

from pathlib import Path

import pytest

from broker_embedded._tools.home import make_home
from tests.interop.clients.test_kafka_python_suite import KAFKA_VERSION, copy_of_suite, run_tests

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SERVICE_MODULE = '''
import os, re, subprocess, tempfile, time


class ExternalService:
    def __init__(self, host, port):
        raise NotImplementedError("the fixture starts its own brokers")


class SpawnedService:
    """A process whose output is searched for patterns."""

    def __init__(self, args, env):
        self.args, self.env = args, env
        self.process = self.output = None

    def start(self):
        self.output = tempfile.NamedTemporaryFile("r")
        with open(self.output.name, "wb") as file:
            self.process = subprocess.Popen(self.args, env=self.env, stdout=file, stderr=subprocess.STDOUT)

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def wait_for(self, pattern, timeout):
        end = time.monotonic() + max(timeout, 60)
        while re.search(pattern, self.text()) is None:
            if self.process.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.05)  # polls the output, up to `end`
        return True

    def dump_logs(self):
        print(self.text())

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0
        self.output.close()
'''

TEMPLATES = {
    "kafka.properties": """
process.roles=broker,controller
node.id={broker_id}
controller.quorum.bootstrap.servers={controller_bootstrap_host}:{controller_port}
controller.listener.names=CONTROLLER
listeners={transport}://{host}:{port},CONTROLLER://{host}:{controller_port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{transport}:{transport}
inter.broker.listener.name={transport}
log.dirs={tmp_dir}/data
num.partitions={partitions}
default.replication.factor={replicas}
group.initial.rebalance.delay.ms=0
auto.create.topics.enable={auto_create_topic}
{sasl_config}
{ssl_config}
{acl_config}
""",
    "kafka_server_jaas.conf": "KafkaServer {{\n  {jaas_config}\n}};\nClient {{}};\n",
    "sasl_command.conf": (
        "security.protocol={transport}\nsasl.mechanism={sasl_mechanism}\nsasl.jaas.config={jaas_config}\n"
    ),
    "log4j.properties": "log4j.rootLogger=INFO, stdout\n",
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A copy of the suite with its fixture, ready to run."""
    copy = copy_of_suite(tmp_path / "suite", SERVICE_MODULE)
    resources = copy / "servers" / "resources" / "default"
    resources.mkdir(parents=True)
    for name, text in TEMPLATES.items():
        (resources / name).write_text(text)
    return copy


def test_the_fixtures_tests_of_sasl_pass(suite: Path, tmp_path: Path) -> None:
    make_home(tmp_path / "home")
    environment = {"KAFKA_ROOT": str(tmp_path / "home"), "KAFKA_VERSION": KAFKA_VERSION}
    outcomes = run_tests(suite, "test/integration/test_sasl_integration.py", environment)
    tests = {
        f"test_sasl_integration::{test}[{mechanism}]": "passed"
        for test in ("test_admin", "test_produce_and_consume", "test_client")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    }
    assert outcomes == tests
