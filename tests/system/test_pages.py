"""The examples on the pages of the documentation: Python runs, commands have options that exist.

README.md and getting-started.md are in test_readme.py, testing.md in test_testing_docs.py.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.__main__ import main
from spark_kafka_native._jobs.batch_reload.command import batch_reload
from spark_kafka_native.confluent import encode_avro
from tests.support.pages import Block, read_blocks
from tests.support.spark.schema_registry import StubRegistry
from tests.support.tools import Tool, calling

DOCS: Final = Path(__file__).parents[2] / "docs"
BLOCKS: Final = {page.stem: read_blocks(page) for page in sorted(DOCS.glob("*.md"))}
RUN_ELSEWHERE: Final = {"getting-started", "testing"}
PAGES: Final = [page for page, blocks in BLOCKS.items() if any(block.kind.startswith("python") for block in blocks)]
ORDER: Final = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}],
}
BROKER_COMMAND: Final = "python -m broker_embedded"


class Reader:
    """A reader of a page: a session, a cluster, a registry and directories in place of those on the page."""

    def __init__(self, spark: SparkSession, broker: EmbeddedBroker, registry: StubRegistry, directory: Path) -> None:
        self.servers, self.registry = broker.bootstrap_servers, registry
        self.names: dict[str, Any] = {"spark": spark, "servers": self.servers}
        self._instead = {
            "kafka-1:9092,kafka-2:9092": self.servers,
            "broker:9092": self.servers,
            "http://registry:8081": registry.url,
            "/checkpoints": str(directory / "checkpoints"),
            "/data/raw": str(directory / "raw"),
            "version=6": "version=1",
        }

    def run(self, page: str) -> None:
        for block in BLOCKS[page]:
            if block.kind == "python":
                code = block.code
                for shown, real in self._instead.items():
                    code = code.replace(shown, real)
                block._replace(code=code).run(self.names)


@pytest.fixture
def reader(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Its session has the settings of before at the end, and runs no query."""
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ["PYSPARK_PYTHON"])
    arrow = "spark.sql.execution.arrow.maxBytesPerBatch"
    before = spark.conf.get(arrow)
    topics = dict.fromkeys(("visits", "visits-copy", "orders", "orders-copy", "orders-out", "events", "clicks"), 1)
    with EmbeddedBroker(topics=topics) as broker, StubRegistry() as registry:
        registry.add("orders-value", ORDER)
        try:
            yield Reader(spark, broker, registry, tmp_path)
        finally:
            for query in spark.streams.active:
                query.stop()
            spark.conf.set(arrow, str(before))


def test_every_page_with_python_is_run_somewhere() -> None:
    assert set(PAGES) - RUN_ELSEWHERE == {
        "batch-reload",
        "clients",
        "confluent",
        "deployment",
        "exactly-once",
        "migration",
        "operations",
        "performance",
        "security",
        "tools",
        "troubleshooting",
        "zookeeper",
    }


def test_zookeeper() -> None:
    for block in BLOCKS["zookeeper"]:
        if block.kind == "python":
            assert block.run({}) == block.promised


@pytest.mark.spark
def test_batch_reload(reader: Reader, tmp_path: Path) -> None:
    write(reader, "events", "a")
    for _ in range(2):
        target = str(tmp_path / "raw")
        arguments = ["--bootstrap-servers", reader.servers, "--topics", "events", "--target", target]
        assert batch_reload.main(arguments, standalone_mode=False) == 0
    reader.run("batch-reload")
    assert (reader.names["events"].count(), reader.names["before"].count()) == (1, 1)


@pytest.mark.spark
def test_confluent(reader: Reader) -> None:
    order = F.struct(F.lit(7).cast("bigint").alias("id"), F.lit("ann").alias("customer"))
    value = encode_avro(order, registry=reader.registry.url, subject="orders-value")
    cluster = {"kafka.bootstrap.servers": reader.servers}
    rows = reader.names["spark"].range(1).select(value.alias("value"))
    rows.write.format("pykafka").options(**cluster, topic="orders").mode("append").save()
    reader.run("confluent")
    assert [row.customer for row in reader.names["good"].collect()] == ["ann"]
    assert reader.names["bad"].count() == 0


@pytest.mark.spark
@pytest.mark.parametrize("page", ["deployment", "operations", "performance", "troubleshooting"])
def test_pages_that_need_records_only(reader: Reader, page: str) -> None:
    write(reader, "visits", "/docs")
    reader.run(page)


@pytest.mark.spark
def test_security(reader: Reader) -> None:
    """The options that it makes are parsed in test_security_page.py."""
    reader.names |= dict.fromkeys(("password", "trust_password", "store_password", "secret"), "x")
    reader.run("security")


@pytest.mark.spark
def test_migration(reader: Reader) -> None:
    reader.run("migration")
    query = reader.names["query"]
    write(reader, "visits", "/docs")
    query.processAllAvailable()
    assert query.exception() is None


@pytest.mark.spark
def test_exactly_once(reader: Reader) -> None:
    spark, cluster = reader.names["spark"], {"kafka.bootstrap.servers": reader.servers}
    reader.names["orders"] = spark.readStream.format("pykafka").options(**cluster, subscribe="visits").load()
    reader.names["rows"] = spark.sql("SELECT 'k' AS key, 'v' AS value")
    guarantee = {"delivery.guarantee": "exactly-once", "transactional.id.prefix": "a-job"}
    reader.names["options"] = {**cluster, **guarantee, "topic": "orders-out"}
    reader.run("exactly-once")
    (query,) = spark.streams.active
    query.processAllAvailable()


@pytest.mark.spark
def test_tools(reader: Reader, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of lookup-table: its commands in order, what the last one prints, and the write between them."""
    tool = calling(main, capfd, monkeypatch)
    blocks = BLOCKS["tools"]
    (write_at,) = [at for at, block in enumerate(blocks) if block.kind == "python"]
    printed = ""
    for block in blocks[write_at - 1 : write_at + 2]:
        code = block.code.replace("localhost:9092", reader.servers)
        if block.kind == "python":
            block._replace(code=code).run(reader.names)
            continue
        for line in code.splitlines():
            response = tool(*shlex.split(line)[1:])
            assert (response.status, response.err) == (0, ""), line
            printed = response.out
    assert [line.rstrip() for line in printed.splitlines()] == blocks[write_at + 2].code.splitlines()


def write(reader: Reader, topic: str, value: str) -> None:
    rows = reader.names["spark"].createDataFrame([("k", value)], "key string, value string")
    options = {"kafka.bootstrap.servers": reader.servers, "topic": topic}
    rows.write.format("pykafka").options(**options).mode("append").save()


def commands() -> Iterator[tuple[Block, str]]:
    """The commands of this package, one a line."""
    for block in (block for blocks in BLOCKS.values() for block in blocks if block.kind in {"", "sh"}):
        for line in block.code.replace("\\\n", " ").splitlines():
            if line.startswith(("pykafka ", f"{BROKER_COMMAND} ")):
                yield block, line


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.setattr(click.Command, "invoke", lambda *_: None)
    return calling(main, capfd, monkeypatch)


@pytest.mark.parametrize(
    ("block", "line"), list(commands()), ids=lambda each: each if isinstance(each, str) else each.page.stem
)
def test_commands_have_options_that_exist(command: Tool, block: Block, line: str) -> None:
    words = shlex.split(line.replace(BROKER_COMMAND, "pykafka broker"), comments=True)
    end = next((at for at, word in enumerate(words) if word in {"<", ">", "|"}), len(words))
    response = command(*words[1:end])
    assert (response.status, response.err) == (0, ""), f"{block.page}:{block.line}"
