import dataclasses
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_kafka_native._spark.options.parsing import Query, parse_sink_options, parse_source_options
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripted.security import Guard
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

RIGHT, WRONG = "right-hunter2", "wrong-hunter2"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    guard = Guard(mechanisms=("PLAIN",), users={"alice": RIGHT}, echoes=True)
    with ScriptedCluster(topics={"t": 1}, guard=guard) as running:
        yield running


def options(servers: str, password: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{MODULE} required username="alice" password="{password}";',
        "kafka.default.api.timeout.ms": "10000",
    }


def texts_of(error: BaseException | None) -> str:
    assert error is not None
    return f"{error} {error!r} {error.__cause__!r} {pickle.dumps(str(error))!r}"


@pytest.mark.feature("security.secrets")
def test_parsed_options_do_not_show_them() -> None:
    given = options("127.0.0.1:9092", RIGHT) | {"kafka.ssl.key.password": WRONG}
    read = {**given, "subscribe": "t"}
    for parsed in (
        parse_source_options(read, Query.BATCH), parse_source_options(read, Query.STREAM), parse_sink_options(given),
    ):  # fmt: skip
        shown = f"{parsed} {parsed!r} {dataclasses.asdict(parsed.client)}"
        assert "hunter2" not in shown
        assert "alice" not in shown
        assert "(hidden)" in shown


@pytest.mark.feature("security.secrets")
def test_passwords_are_in_no_error_or_log(
    spark: SparkSession, cluster: ScriptedCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    right, wrong = (options(cluster.bootstrap_servers, word) for word in (RIGHT, WRONG))
    rows = spark.createDataFrame([("a",)], "value string")
    frame = spark.read.format("pykafka").options(**right, subscribe="t").load()
    heard = [frame._jdf.queryExecution().toString(), repr(frame.explain(extended=True))]

    with pytest.raises(Exception, match=r"SASL|PLAIN") as plan:
        spark.read.format("pykafka").options(**wrong, subscribe="t").load().count()
    with pytest.raises(Exception, match=r"SASL|PLAIN") as task:
        rows.write.format("pykafka").options(**wrong, topic="t").mode("append").save()
    heard += [texts_of(plan.value), texts_of(task.value)]

    stream = spark.readStream.format("pykafka").options(**wrong, subscribe="t").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    eventually(lambda: query.isActive, False, within_s=60)
    heard += [texts_of(query.exception()), repr(query.lastProgress), repr(query.recentProgress)]
    bad: dict[str, Any] = wrong | {"kafka.sasl.jaas.config": WRONG}
    with pytest.raises(Exception, match="jaas") as option:
        spark.read.format("pykafka").options(**bad, subscribe="t").load()
    heard.append(texts_of(option.value))

    heard += capfd.readouterr()
    heard += [path.read_text() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".crc"]
    for text in heard:
        assert RIGHT not in text
        assert WRONG not in text
    assert any("sasl.jaas.config" in text for text in heard)
