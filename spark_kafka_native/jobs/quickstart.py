"""``python -m spark_kafka_native.jobs.quickstart``: page views through two streaming queries, and a check."""

import sys

from spark_kafka_native._jobs.quickstart import main

if __name__ == "__main__":
    sys.exit(main())
