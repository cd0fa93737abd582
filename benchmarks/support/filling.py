"""Topics with something in them: rows that look like events, written by our producer."""

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_kafka_native._client.admin.topics import NewTopic, create_topics
from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.producer.producer import Producer
from spark_kafka_native._records.arrow.schema import HEADERS

NOW_MS = 1_700_000_000_000
POOL_BYTES = 8_000_000
"""After so many bytes of values they come again: more than a batch, so that compression finds nothing in it."""
CREATE_TIMEOUT_MS = 300_000


def events(total_bytes: int, shortest: int, longest: int, headers: int) -> pa.RecordBatch:
    """Page views as JSON, cut to size: they compress about as such events do."""
    chance = random.Random(0)
    keys, values, left = [], [], total_bytes
    while left > 0:
        size = chance.randint(shortest, longest)
        views = ""
        while len(views) < size:
            page, user = chance.randrange(1000), chance.getrandbits(40)
            views += f'{{"page": "/articles/{page}", "user": "{user:x}", "ms": {chance.randrange(10_000)}}},'
        keys.append(b"%010x" % chance.getrandbits(40))
        values.append(views[:size].encode())
        left -= size + 20
    times = [NOW_MS + index // 3 for index in range(len(keys))]
    columns: dict[str, pa.Array[Any]] = {"key": pa.array(keys), "value": pa.array(values), "timestamp": pa.array(times)}
    if headers:
        each = [{"key": f"header-{index}", "value": b"%016x" % chance.getrandbits(64)} for index in range(headers)]
        columns["headers"] = pa.array([each] * len(keys), HEADERS)
    return pa.record_batch(columns)


def create(cluster: Cluster, topic: str, partitions: int, configs: dict[str, str] | None = None) -> None:
    """Make a topic, of however many partitions."""
    wanted = NewTopic(name=topic, partitions=partitions, configs=dict(configs or {}))
    create_topics(cluster, [wanted], timeout_ms=CREATE_TIMEOUT_MS)


def fill(
    servers: str,
    topic: str,
    rows: int,
    pool: pa.RecordBatch,
    *,
    options: dict[str, object] | None = None,
    more: Callable[[int, pa.RecordBatch], pa.RecordBatch] = lambda _, batch: batch,
) -> None:
    """Write so many rows of a pool, over and over. ``more`` may change a batch, given the rows before it.

    ``options`` are the producer's, without its servers.
    """
    config = ClientConfig.parse({"bootstrap.servers": servers, **(options or {})})
    with Producer(config) as producer:
        for start in range(0, rows, pool.num_rows):
            producer.send(topic, more(start, pool.slice(0, min(pool.num_rows, rows - start))))
