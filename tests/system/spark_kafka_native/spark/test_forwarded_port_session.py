import pytest
from pyspark.sql import SparkSession

from broker_embedded.testing import EmbeddedBroker
from tests.support.scripted.proxy import BreakingProxy

pytestmark = pytest.mark.spark


@pytest.mark.feature("more.forwardedPort")
def test_a_query_reads_and_writes_through_a_forwarded_port(spark: SparkSession) -> None:
    """The broker advertises port 1, which refuses connections."""
    settings = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}
    with EmbeddedBroker(settings=settings, topics={"t": 2}) as broker, BreakingProxy() as proxy:
        proxy.target = broker.bootstrap_servers
        options = {"kafka.bootstrap.servers": proxy.address, "kafka.broker.addresses": "bootstrap"}
        rows = spark.range(100).selectExpr("cast(id as string) as value")
        rows.write.format("pykafka").mode("append").options(**options, topic="t").save()
        found = (
            spark.read.format("pykafka").options(**options, subscribe="t").load().selectExpr("cast(value as string)")
        )
        assert sorted(int(row[0]) for row in found.collect()) == list(range(100))
