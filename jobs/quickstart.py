"""``spark-submit jobs/quickstart.py [--bootstrap-servers HOST:PORT]``: page views, two streaming queries, a check."""

import sys

from spark_kafka_native._jobs.quickstart import main

if __name__ == "__main__":
    sys.exit(main())
