"""What the session tests share: a cluster's topics, and DataFrames on them. Spark itself is the whole suite's."""

import os
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.conftest import OTHER_CLUSTER
from tests.support.clients.topics import Topics

Reader = Callable[..., DataFrame]


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> str:
    other = os.environ.get(OTHER_CLUSTER)
    address: str = other or request.getfixturevalue("bundled_broker").bootstrap_servers
    return address


@pytest.fixture(scope="session")
def topics(servers: str) -> Iterator[Topics]:
    with Topics(servers) as made:
        yield made


@pytest.fixture
def read(spark: SparkSession, servers: str) -> Reader:
    def make(*, schema: str | None = None, **options: object) -> DataFrame:
        reader = spark.read.format("pykafka").options(**option_names(servers, options))
        return (reader.schema(schema) if schema else reader).load()

    return make


@pytest.fixture
def read_stream(spark: SparkSession, servers: str) -> Reader:
    """``read_stream(subscribe="t", ...)``: a streaming DataFrame."""

    def make(*, schema: str | None = None, **options: object) -> DataFrame:
        reader = spark.readStream.format("pykafka").options(**option_names(servers, options))
        return (reader.schema(schema) if schema else reader).load()

    return make


def option_names(servers: str, options: dict[str, object]) -> dict[str, str]:
    """Options as Spark takes them, with the cluster's address unless there is another."""
    named = {name.replace("__", "."): str(value) for name, value in options.items()}
    return {"kafka.bootstrap.servers": servers} | named
