"""``python -m spark_kafka_native.jobs.batch_reload``: topics into files."""

import sys

from spark_kafka_native._jobs.batch_reload.command import main

if __name__ == "__main__":
    sys.exit(main())
