"""``spark-submit jobs/audit.py --help``: topics compared with their copies; see ``spark_kafka_native/_jobs/audit``."""

import sys

from spark_kafka_native._jobs.audit.command import main

if __name__ == "__main__":
    sys.exit(main())
