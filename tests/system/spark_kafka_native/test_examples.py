"""The examples in the docstrings of the public names, as a user would type them."""

import doctest
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import broker_embedded.testing
import spark_kafka_native
import spark_kafka_native.confluent
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._jobs.batch_reload.command import main as batch_reload
from spark_kafka_native._records.kafka_0_7 import encode_message

MODULES = (spark_kafka_native, spark_kafka_native.confluent, broker_embedded.testing)
NAMES = {name: getattr(module, name) for module in MODULES for name in module.__all__}


def found_examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = finder.find(broker_embedded.testing, "broker_embedded.testing", globs={})[:1]
    for name, value in NAMES.items():
        if callable(value):
            tests += finder.find(value, name, module=False, globs={})
    return [test for test in tests if test.examples]


EXAMPLES = found_examples()


def test_every_function_and_both_brokers_have_an_example() -> None:
    functions = {name for name, value in NAMES.items() if callable(value) and not isinstance(value, type)}
    shown = {test.name for test in EXAMPLES}
    assert (functions | {"PyKafkaDataSource", "LagListener", "EmbeddedBroker", "BrokerProcess"}) - shown == set()


@pytest.mark.spark
@pytest.mark.parametrize("test", EXAMPLES, ids=lambda test: test.name)
def test_an_example_does_what_it_shows(
    test: doctest.DocTest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("JAVA_HOME", "PYSPARK_PYTHON"):
        monkeypatch.setenv(variable, os.environ.get(variable, ""))
    with EmbeddedBroker(topics={"visits": 1, "counts": 1}) as broker:
        test.globs.update(NAMES, spark=spark, servers=broker.bootstrap_servers, F=F, os=os)
        if "target" in (test.docstring or ""):
            test.globs["target"] = loaded(spark, broker.bootstrap_servers, tmp_path / "target")
        if "log_dir" in (test.docstring or ""):
            test.globs["log_dir"] = log_of_0_7(tmp_path)
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        runner.run(test, out=said.append, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def log_of_0_7(log_dir: Path) -> str:
    """A ``log.dir`` with one message of Kafka 0.7."""
    (log_dir / "visits-0").mkdir()
    (log_dir / "visits-0" / "00000000000000000000.kafka").write_bytes(encode_message(b"/doc"))
    return str(log_dir)


def loaded(spark: SparkSession, servers: str, target: Path) -> str:
    """A target into which one record of the topic visits was loaded."""
    options = {"kafka.bootstrap.servers": servers, "topic": "visits"}
    spark.sql("SELECT 'ann' AS key, '/docs' AS value").write.format("pykafka").mode("append").options(**options).save()
    assert batch_reload(["--bootstrap-servers", servers, "--topics", "visits", "--target", str(target)]) == 0
    return str(target)
