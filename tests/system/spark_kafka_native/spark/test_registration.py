import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._spark.datasource import PyKafkaDataSource, register
from spark_kafka_native._spark.worker_python import PYTHON_VARIABLES

ROOT = Path(__file__).parents[4]
SCRIPT = """
import sys
from pyspark.sql import SparkSession
from spark_kafka_native._spark.datasource import register
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
)
register(spark)
register(spark)
manager = spark._jsparkSession.sessionState().dataSourceManager()
print("known:", manager.dataSourceExists("pykafka"))
"""


class Registry:
    def __init__(self) -> None:
        self.registered: list[type] = []

    def register(self, source: type) -> None:
        self.registered.append(source)


def test_session_without_a_jvm_gets_a_registration() -> None:
    """A session of Spark Connect has no JVM to ask."""
    session: Any = SimpleNamespace(dataSource=Registry())
    register(session)
    assert session.dataSource.registered == [PyKafkaDataSource]


@pytest.mark.spark
def test_a_source_that_spark_has_found_is_not_registered(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(spark, "_jsparkSession"):
        pytest.skip("a session of Spark Connect cannot say what it has found")
    registry = Registry()
    monkeypatch.setattr(type(spark), "dataSource", registry)
    register(spark)
    assert registry.registered == []


@pytest.mark.spark
def test_a_thread_without_an_active_session_can_write_after_register(spark: SparkSession) -> None:
    """Spark looks for the format of a batch write in the thread's active session."""
    rows = spark.createDataFrame([("ann",)], "value string")

    def write(cluster: dict[str, str]) -> None:
        assert type(spark).getActiveSession() is None
        register(spark)
        rows.write.format("pykafka").options(**cluster, topic="t").mode("append").save()

    with EmbeddedBroker(topics={"t": 1}) as broker, ThreadPoolExecutor(1) as thread:
        cluster = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        thread.submit(write, cluster).result()
        assert spark.read.format("pykafka").options(**cluster, subscribe="t").load().count() == 1


@pytest.mark.spark
@pytest.mark.parametrize("found", [True, False])
def test_spark_does_not_warn_of_a_source_that_was_replaced(found: bool, tmp_path: Path) -> None:
    """Found: the package lies on the path of Spark's workers. Else it is imported as an editable install is."""
    finder = f"import sys; sys.path.append({str(ROOT)!r})\n"
    hide = "" if found else "import os; os.environ['PYTHONPATH'] = ''\n"
    script = tmp_path / "script.py"
    script.write_text((finder if not found else "") + hide + SCRIPT)
    path = [str(ROOT)] if found else []
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path), **dict.fromkeys(PYTHON_VARIABLES, sys.executable)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.stdout == "known: True\n", done.stderr
    assert "replaced" not in done.stderr
