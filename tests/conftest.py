"""What takes seconds to start and serves a whole session: brokers, the bundled one and Apache Kafka, and Spark.

And the choice of a kernel for tests that run twice.
"""

import os
import signal
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._java import JavaMissing, ensure_java
from spark_kafka_native._records.arrow import kernel
from spark_kafka_native._spark.worker_python import PYTHON_VARIABLES, worker_python
from tests.support.java import DRIVER_OPTIONS, QUICK_START
from tests.support.report import FINDINGS, Report
from tests.support.scripts import DidNotStart
from tests.support.servers.both_brokers import kafka_of_its_own
from tests.support.servers.brokers import RECORDS_STAY, AnyBroker, TopicMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same examples in every run, so that a red run is the change's doing; a busy machine may stand still for a moment.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
# `make test-fuzz`: others each time, but the same for a seed.
settings.register_profile("fuzz", settings.get_profile("repeatable"), derandomize=False, database=None)

REPOSITORY = Path(__file__).parents[1]
INTEROP = REPOSITORY / "tests" / "interop"
REMOTE = "PYKAFKA_TEST_REMOTE"
"""Set to ``local[2]`` to run the tests that share a Spark session through Spark Connect."""
OTHER_CLUSTER = "PYKAFKA_TEST_SERVERS"
"""Set to host:port to run the session tests on a cluster that is already there."""


SPARK_TIMEOUT_S = 180

pytest_plugins = ["tests.support.no_skips"]


def pytest_configure() -> None:
    """Handle SIGINT, which a shell ignores for a process that it starts in the background; options for Spark's JVMs."""
    os.environ.setdefault(DRIVER_OPTIONS, " ".join(QUICK_START))
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the Spark session and those with foreign servers, and name features in reports."""
    for item in items:
        features = {feature for mark in item.iter_markers("feature") for feature in mark.args}
        item.user_properties += [("features", " ".join(sorted(features)))] if features else []
        if "spark" in getattr(item, "fixturenames", ()) and item.get_closest_marker("spark") is None:
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("spark") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
        if item.get_closest_marker("interop") or INTEROP in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=[DidNotStart.__name__]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for title, lines in config.stash.get(FINDINGS, {}).items():
        terminalreporter.section(title)
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    def add(title: str, lines: Iterable[str]) -> None:
        pytestconfig.stash.setdefault(FINDINGS, {}).setdefault(title, []).extend(lines)

    return add


@pytest.fixture(scope="module", params=["plain", "compiled"])
def each_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    """Records are read and written in plain Python, then by the compiled kernel: for tests of what both do."""
    with kernel.using("off" if request.param == "plain" else "auto"):
        if request.param == "compiled" and not kernel.is_compiled():
            pytest.skip("the kernel has not been built")
        yield


@pytest.fixture(scope="session")
def bundled_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The bundled broker in a process of its own."""
    with BrokerProcess(tmp_path_factory.mktemp("bundled-broker"), settings=RECORDS_STAY) as broker:
        yield broker


apache_kafka = kafka_of_its_own("session", settings=RECORDS_STAY)


@pytest.fixture(scope="session", params=["bundled", pytest.param("apache", marks=pytest.mark.interop)])
def any_broker(request: pytest.FixtureRequest) -> AnyBroker:
    """The bundled broker and Apache Kafka, one after the other."""
    broker: AnyBroker = request.getfixturevalue("bundled_broker" if request.param == "bundled" else "apache_kafka")
    return broker


@pytest.fixture
def new_topic(any_broker: AnyBroker) -> TopicMaker:
    """`new_topic(partitions=3)` makes a topic and returns its name."""
    return TopicMaker(any_broker)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Spark on two cores, whose workers run this interpreter and find this repository; one for all tests.

    With `REMOTE` in the environment it is a client of Spark Connect, and the server runs there.
    """
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))  # put back what ensure_java may set
        try:
            ensure_java()
        except JavaMissing as missing:
            pytest.skip(str(missing))
        for variable in PYTHON_VARIABLES:
            patch.setenv(variable, worker_python())
        # An editable install is importable without being listed; Spark finds data sources by listing modules.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
        patch.chdir(scratch)
        remote = os.environ.get(REMOTE)
        if remote:  # a client of Spark Connect warns of settings of the server that it cannot change
            warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        session = (
            (SparkSession.builder.remote(remote) if remote else SparkSession.builder.master("local[2]"))
            .appName("pykafka-tests")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.streaming.stopTimeout", "20s")  # for a query whose Python process hangs
            .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
            .getOrCreate()
        )
        if not remote:
            session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(autouse=True)
def _spark_ends(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test of the shared session waits for ever, nor leaves a query to the next one."""
    if "spark" not in request.fixturenames:
        yield
        return
    from tests.support.spark.watchdog import GRACE_S, SparkWatchdog

    limit_s = request.node.get_closest_marker("timeout").args[0] - GRACE_S
    with SparkWatchdog(request.getfixturevalue("spark"), limit_s) as watchdog:
        yield
    if watchdog.has_bitten:
        pytest.fail(f"Spark was stopped after {limit_s} s")
