"""Without PySpark, or with one that is too old: the broker and the tools run, and what needs Spark says so."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_kafka_native._extras import SparkMissing, import_with_spark

PYSPARK = {
    "missing": "raise ModuleNotFoundError(\"No module named 'pyspark'\", name='pyspark')",
    "old": "__version__ = '4.1.4'",
}
NEEDED = {
    "missing": "needs the package pyspark: run `pip install 'spark-kafka-native[spark]'`",
    "old": "needs PySpark 4.2 or later; 4.1.4 is installed",
}
BROKER_AND_TOOLS = """
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.__main__ import main
with EmbeddedBroker() as broker:
    broker.create_topic("t", partitions=2)
    raise SystemExit(main(["topics", "--list", "--bootstrap-server", broker.bootstrap_servers]))
"""


@pytest.fixture(params=PYSPARK)
def pyspark(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Which PySpark is installed, in ``tmp_path``."""
    found: str = request.param
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text(PYSPARK[found])
    return found


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python with the PySpark in ``folder``."""
    path = os.pathsep.join([str(folder), os.getcwd()])
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_broker_and_tools_run(pyspark: str, tmp_path: Path) -> None:
    done = run(tmp_path, "-c", BROKER_AND_TOOLS)
    assert (done.stdout, done.stderr, done.returncode) == ("t\n", "", 0)


@pytest.mark.parametrize("name", ["register", "PyKafkaDataSource", "LagListener", "load_dataframe"])
def test_public_names_say_what_they_need(pyspark: str, tmp_path: Path, name: str) -> None:
    done = run(tmp_path, "-c", f"from spark_kafka_native import {name}")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"SparkMissing: spark_kafka_native.{name} {NEEDED[pyspark]}")


@pytest.mark.parametrize("command", ["quickstart", "reload"])
def test_commands_say_what_they_need(pyspark: str, tmp_path: Path, command: str) -> None:
    done = run(tmp_path, "-m", "spark_kafka_native", command, "--help")
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr == f"pykafka {command} {NEEDED[pyspark]}\n"


def test_shells_complete_the_options_of_other_commands_only(pyspark: str, tmp_path: Path) -> None:
    for words, offered in (("pykafka reload --", ""), ("pykafka topics --lis", "plain,--list\n")):
        asked = {"_PYKAFKA_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "2"}
        done = run(tmp_path, "-m", "spark_kafka_native", **asked)
        assert (done.stdout, done.stderr) == (offered, ""), pyspark


def test_a_folder_named_pyspark_is_not_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace())
    with pytest.raises(SparkMissing, match=f"^register {re.escape(NEEDED['missing'])}$"):
        import_with_spark("pyspark.sql", "register")


def test_a_module_that_an_old_pyspark_has_does_not_hide_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="4.1.4"))
    with pytest.raises(SparkMissing, match=r"^register needs PySpark 4\.2 or later; 4\.1\.4 is installed$"):
        import_with_spark("json", "register")
