"""Prometheus' own Python library reads what the broker says of itself."""

import urllib.request

import pytest

from broker_embedded.testing import EmbeddedBroker
from tests.support.broker.driver import batch, fetch_request, produce_request
from tests.support.requests.raw_client import RawClient

pytestmark = pytest.mark.interop


def test_every_metric_is_read_as_it_was_meant() -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")
    with EmbeddedBroker(topics={"t": 2}, settings={"metrics.listener": "127.0.0.1:0"}) as broker:
        with RawClient(broker.bootstrap_servers) as client:
            for _ in range(3):
                client.ask(produce_request("t", batch(b"x", b"y")), 9)
            client.ask(produce_request("missing", batch(b"x")), 9)
            client.ask(fetch_request("t"), 11)
        url = broker._server.metrics_url
        assert url is not None
        with urllib.request.urlopen(url, timeout=20) as response:
            text = response.read().decode()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    assert families["kafka_network_requestmetrics_totaltime_seconds"].type == "histogram"
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert values["kafka_server_brokertopicmetrics_messagesin_total", ("topic", "t")] == 6
    assert values["kafka_log_log_logendoffset", ("partition", "0"), ("topic", "t")] == 6
    errors = ("kafka_network_requestmetrics_errors_total", ("error", "UNKNOWN_TOPIC_OR_PARTITION"))
    assert values[(*errors, ("request", "Produce"))] == 1
    buckets = {
        float(labels["le"]): sample.value
        for sample in families["kafka_network_requestmetrics_totaltime_seconds"].samples
        if sample.name.endswith("_bucket") and (labels := sample.labels)["request"] == "Produce"
    }
    assert buckets[float("inf")] == 4
    assert [buckets[bound] for bound in sorted(buckets)] == sorted(buckets.values())
