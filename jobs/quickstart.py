"""``spark-submit jobs/quickstart.py [--bootstrap-servers HOST:PORT]``; see ``spark_kafka_native.jobs.quickstart``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native._jobs.quickstart import main


@contextmanager
def _bundled_broker() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


if __name__ == "__main__":
    sys.exit(main(cluster=_bundled_broker()))
