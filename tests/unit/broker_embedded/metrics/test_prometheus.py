import re
from collections import Counter

from broker_embedded._metrics.prometheus import text_of
from broker_embedded._metrics.snapshot import (
    ApiMetrics,
    BrokerMetrics,
    ConnectionMetrics,
    FetchSessionMetrics,
    PartitionMetrics,
    TopicMetrics,
)
from tests.support.broker.driver import BrokerDriver, batch

METRICS = BrokerMetrics(
    apis={
        "Produce": ApiMetrics(
            requests=3,
            versions={9: 2, 10: 1},
            errors={"NOT_LEADER_OR_FOLLOWER": 1},
            bytes_in=100,
            bytes_out=50,
            time_total_s=0.25,
            time_p50_s=0.1,
            time_p99_s=0.2,
            time_p999_s=0.2,
            time_buckets=((0.001, 1), (0.5, 2)),
        )
    },
    topics={
        'od"d\\na\nme': TopicMetrics(
            bytes_in=10,
            messages_in=2,
            bytes_out=5,
            partitions={
                0: PartitionMetrics(
                    size_bytes=10,
                    segments=1,
                    log_start_offset=3,
                    last_stable_offset=4,
                    high_watermark=5,
                    log_end_offset=5,
                    open_transactions=2,
                )
            },
        )
    },
    connections=ConnectionMetrics(open=2, opened=9, refused={"max.connections.per.ip": 1}),
    fetch_sessions=FetchSessionMetrics(sessions=1, partitions=4, evictions=2),
    groups={("classic", "Stable"): 3},
    transactions={"Ongoing": 2, "Empty": 7},
    waiting=6,
    offline_logs=2,
)
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? (\S+)')


def test_every_metric_is_exported() -> None:
    lines = text_of(METRICS).splitlines()
    for expected in (
        'kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 2',
        'kafka_network_requestmetrics_errors_total{request="Produce",error="NOT_LEADER_OR_FOLLOWER"} 1',
        'kafka_network_requestmetrics_requestbytes_total{request="Produce"} 100',
        'kafka_network_requestmetrics_responsebytes_total{request="Produce"} 50',
        'kafka_network_requestmetrics_totaltime_seconds_bucket{request="Produce",le="0.001"} 1',
        'kafka_network_requestmetrics_totaltime_seconds_bucket{request="Produce",le="+Inf"} 3',
        'kafka_network_requestmetrics_totaltime_seconds_sum{request="Produce"} 0.25',
        'kafka_network_requestmetrics_totaltime_seconds_count{request="Produce"} 3',
        r'kafka_server_brokertopicmetrics_bytesin_total{topic="od\"d\\na\nme"} 10',
        r'kafka_server_brokertopicmetrics_messagesin_total{topic="od\"d\\na\nme"} 2',
        r'kafka_log_log_size{topic="od\"d\\na\nme",partition="0"} 10',
        r'kafka_log_log_logstartoffset{topic="od\"d\\na\nme",partition="0"} 3',
        r'kafka_log_log_logendoffset{topic="od\"d\\na\nme",partition="0"} 5',
        "kafka_server_replicamanager_partitioncount 1",
        "kafka_server_socketservermetrics_connection_count 2",
        "kafka_server_socketservermetrics_connection_creation_total 9",
        'kafka_server_socketservermetrics_connection_refused_total{limit="max.connections.per.ip"} 1',
        "kafka_server_fetchsessioncache_numincrementalfetchsessions 1",
        "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total 2",
        "kafka_server_delayedoperationpurgatory_purgatorysize 6",
        'kafka_coordinator_group_groupcount{type="classic",state="Stable"} 3',
        'kafka_coordinator_transaction_transactionalidcount{state="Ongoing"} 2',
        'kafka_coordinator_transaction_transactionalidcount{state="Empty"} 7',
        r'kafka_log_log_numopentransactions{topic="od\"d\\na\nme",partition="0"} 2',
        r'kafka_cluster_partition_laststableoffsetlag{topic="od\"d\\na\nme",partition="0"} 1',
    ):
        assert expected in lines


def test_the_prometheus_text_format() -> None:
    text = text_of(METRICS)
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    helps: Counter[str] = Counter()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helps[line.split(" ")[2]] += 1
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            kinds[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            family = re.sub("_(bucket|sum|count)$", "", match[1]) if match[1] not in kinds else match[1]
            assert family in kinds, line
            float(match[3])
    assert set(helps.values()) == {1}
    assert helps.keys() == kinds.keys()
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in kinds.items())


def test_a_broker_that_works(broker: BrokerDriver) -> None:
    broker.create("t")
    broker.produce("t", batch(b"x"))
    text = broker.run(broker.broker.metrics_text())
    assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="t"} 1\n' in text
