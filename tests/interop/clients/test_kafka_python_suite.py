"""kafka-python's own integration tests, from its source distribution on PyPI, against both brokers.

The distribution lacks two modules of the tests; those here stand in for them. `EXPECTED` has every test that does not
pass and why; one that begins to pass has to be taken off.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from broker_embedded.testing import BrokerProcess
from tests.support.programs.toolchains import ToolMissing, python_source
from tests.support.report import Report
from tests.support.scripts import free_port
from tests.support.servers.both_brokers import kafka_of_its_own
from tests.support.servers.brokers import AnyBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

SUITE = "kafka-python==3.0.12"
KAFKA_VERSION = "4.3"
TIMEOUT_S = 500.0

SERVICE_MODULE = '''
class ExternalService:
    """A broker that the caller starts and stops."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self): pass
    def close(self): pass
    def start(self): pass
    def stop(self): pass
    def dump_logs(self): pass
    def wait_for(self, pattern, timeout=None): return True


class SpawnedService(ExternalService):
    pass
'''

# What the suite itself sets for a broker that it starts.
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100", "num.partitions": "4"}

NO_SSL = "wants to start a broker with certificates of its own"
EXPECTED_OF_BOTH = {
    "test_ssl_integration.TestSSLConnection::test_ssl_handshake": NO_SSL,
    "test_ssl_integration.TestSSLConnection::test_legacy_kafka_client_ssl": NO_SSL,
    "test_admin_integration::test_create_describe_delete_acls": "wants an authorizer; without one SECURITY_DISABLED",
}
EXPECTED = {
    "apache": EXPECTED_OF_BOTH | {"test_admin_integration::test_create_partitions": "wants the broker to be number 0"},
    "bundled": EXPECTED_OF_BOTH,
}


@pytest.fixture
def bundled_suite_server(tmp_path: Path) -> Iterator[BrokerProcess]:
    # One test wants the advertised address to be a setting, and one the broker to be number 0.
    address = f"PLAINTEXT://127.0.0.1:{free_port()}"
    settings = {"listeners": address, "advertised.listeners": address, "node.id": "0", **SETTINGS}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker:
        yield broker


apache_suite_server = kafka_of_its_own("function", settings=SETTINGS)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return copy_of_suite(tmp_path / "suite", SERVICE_MODULE)


def copy_of_suite(copy: Path, service_module: str) -> Path:
    """A copy of the suite that can be run, with a module that it lacks."""
    try:
        shutil.copytree(python_source(SUITE), copy)
    except ToolMissing as error:
        pytest.skip(f"{SUITE} is not available: {error}")
    (copy / "test" / "__init__.py").touch()
    (copy / "test" / "service.py").write_text(service_module)
    return copy


@pytest.mark.parametrize("name", ["bundled", "apache"])
def test_the_suite_passes_but_for_what_is_known(
    name: str, suite: Path, request: pytest.FixtureRequest, report: Report
) -> None:
    server: AnyBroker = request.getfixturevalue(f"{name}_suite_server")
    environment = {
        "KAFKA_ROOT": str(suite),
        "KAFKA_URI": f"kafka://{server.bootstrap_servers}",
        "KAFKA_VERSION": KAFKA_VERSION,
    }
    outcomes = run_tests(suite, "test/integration", environment)
    counts = Counter(outcomes.values())
    report(
        f"{SUITE}, its own integration tests",
        [f"{name}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))],
    )
    failed = {test for test, outcome in outcomes.items() if outcome in {"failed", "error"}}
    assert failed == EXPECTED[name].keys()
    assert counts["passed"] >= 52


def run_tests(suite: Path, tests: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The outcome of each test of a copy of the suite: passed, failed, error or skipped."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON"))}
    options = ("-p", "pytest_timeout", "--timeout=60", "--timeout-method=signal", "-p", "no:cacheprovider", "-q")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", tests, *options, "--junitxml=outcomes.xml"],
        cwd=suite,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    print(done.stdout[-20_000:])  # pytest shows it with a failure
    outcomes = {}
    for case in ElementTree.parse(suite / "outcomes.xml").iter("testcase"):
        test = f"{case.attrib['classname'].removeprefix('test.integration.')}::{case.attrib['name']}"
        outcomes[test] = outcome_of(case)
    return outcomes


def outcome_of(case: ElementTree.Element) -> str:
    for element, outcome in (("failure", "failed"), ("error", "error"), ("skipped", "skipped")):
        if case.find(element) is not None:
            return outcome
    return "passed"
