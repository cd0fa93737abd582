"""What a transactional id costs a broker that keeps it: memory and log per id, and Apache Kafka's with an option.

    python -m benchmarks.transactional_ids [--ids 100000] [--apache]

Each id takes part in one transaction of one partition, which is committed, and is not used again. Brokers keep it for
``transactional.id.expiration.ms`` (7 days). Memory of Apache Kafka is that of live objects after a full collection, as
``jcmd PID GC.class_histogram`` counts it, that of the bundled broker is what the process has.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.idle_connections import resident_bytes
from benchmarks.support.report import Report, arguments, parse
from broker_embedded.testing import BrokerProcess
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from spark_kafka_native._protocol.messages.end_txn import EndTxnRequest
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.schema import Request
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.servers.apache_kafka import ApacheKafka

_TOPIC = "t"
_WINDOW = 500
"""Requests on their way at a time."""
_OPEN = 2_000
"""Transactions that are open at a time: few enough that all are over long before they time out."""
_NOT_READY = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS}
)
_INIT_VERSION, _ADD_VERSION, _END_VERSION = 4, 3, 4


def ask_all(client: RawClient, requests: Sequence[Request[Any]], version: int) -> list[Any]:
    """The responses to many requests, of which some are asked again until the coordinator is ready for them.

    Raises KafkaError: one was refused.
    """
    responses: list[Any] = [None] * len(requests)
    open_questions = list(range(len(requests)))
    while open_questions:
        again = []
        for start in range(0, len(open_questions), _WINDOW):
            window = open_questions[start : start + _WINDOW]
            client.send(b"".join(request_bytes(requests[index], version, index) for index in window))
            for index in window:
                _, responses[index] = decode_response(type(requests[index]).response, version, client.frame())
                error = ErrorCode.of(getattr(responses[index], "error_code", 0))
                if error in _NOT_READY:
                    again.append(index)
                elif error:
                    raise KafkaError(error, f"{requests[index]}")
        open_questions = again
        time.sleep(0.05 if again else 0)
    return responses


def use_ids(address: str, ids: Sequence[str]) -> None:
    """A committed transaction of one partition for each id."""
    with RawClient(address) as client:
        while client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=("any",)), 4).coordinators[0].error_code:
            time.sleep(0.1)
        for start in range(0, len(ids), _OPEN):
            _use_ids(client, ids[start : start + _OPEN])


def _use_ids(client: RawClient, ids: Sequence[str]) -> None:
    producers = ask_all(
        client,
        [InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000) for name in ids],
        _INIT_VERSION,
    )
    topics = (AddPartitionsToTxnTopic(name=_TOPIC, partitions=(0,)),)
    named = list(zip(ids, producers, strict=True))
    added = ask_all(
        client,
        [
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=topics,
            )
            for name, producer in named
        ],
        _ADD_VERSION,
    )
    results = [result for response in added for result in response.results_by_topic_v3_and_below]
    assert {part.partition_error_code for result in results for part in result.results_by_partition} == {0}
    ask_all(
        client,
        [
            EndTxnRequest(
                transactional_id=name,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=True,
            )
            for name, producer in named
        ],
        _END_VERSION,
    )


def cost_of_ids(address: str, log_directory: Path, memory: Callable[[], int], ids: int) -> dict[str, float]:
    """Bytes per id in memory and in ``__transaction_state``, and what it took to use them."""
    use_ids(address, [f"warm.{number}" for number in range(1000)])
    before, log_before = memory(), log_bytes(log_directory)
    begun = time.monotonic()
    use_ids(address, [f"prefix.4503599627370496.{number // 200}.{number // 200}.{number}" for number in range(ids)])
    seconds = time.monotonic() - begun
    return {
        "ids": ids,
        "bytes of memory per id": round((memory() - before) / ids),
        "bytes of log per id": round((log_bytes(log_directory) - log_before) / ids),
        "transactions per second": round(ids / seconds),
    }


def log_bytes(directory: Path) -> int:
    """Bytes in the segments of ``__transaction_state``, not compacted."""
    return sum(file.stat().st_size for file in directory.glob("__transaction_state-*/*.log"))


def live_bytes(pid: int) -> int:
    """What a JVM's live objects take."""
    response = subprocess.run(
        ["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"^Total\s+\d+\s+(\d+)", response, re.MULTILINE)
    assert found, response[-300:]
    return int(found[1])


def main() -> None:
    """Measure each broker and report."""
    parser = arguments(__doc__, rounds=None)
    parser.add_argument("--ids", type=int, default=100_000)
    parser.add_argument(
        "--apache", action="store_true", help="Apache Kafka too, from Maven Central; needs a JDK's jcmd"
    )
    options = parse(parser, ids=1_000)
    report = Report("transactional_ids", "What a transactional id costs a broker that keeps it", options)
    found = {}
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(directory) as broker:
        broker.create_topic(_TOPIC)
        servers, log_directory = broker.bootstrap_servers, Path(directory)
        found["bundled"] = cost_of_ids(servers, log_directory, lambda: resident_bytes(broker.pid), options.ids)
    if options.apache:
        with ApacheKafka(jvm_options=()) as kafka:
            kafka.create_topic(_TOPIC)
            servers, log_directory = kafka.bootstrap_servers, kafka.log_directory
            found["Apache Kafka"] = cost_of_ids(servers, log_directory, lambda: live_bytes(kafka.pid()), options.ids)
    report.table(("broker", *found["bundled"]), [[name, *costs.values()] for name, costs in found.items()])
    report.save()


if __name__ == "__main__":
    main()
