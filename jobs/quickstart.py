"""``spark-submit jobs/quickstart.py [--bootstrap-servers HOST:PORT]``; see ``spark_kafka_native.jobs.quickstart``."""

import sys

from spark_kafka_native.jobs.quickstart import main

if __name__ == "__main__":
    sys.exit(main())
