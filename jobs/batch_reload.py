"""``spark-submit jobs/batch_reload.py --help``: topics into files; see ``spark_kafka_native/_jobs/batch_reload``."""

import sys

from spark_kafka_native._jobs.batch_reload.command import main

if __name__ == "__main__":
    sys.exit(main())
