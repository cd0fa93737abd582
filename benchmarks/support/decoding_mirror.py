"""`pykafka mirror` that decodes all batches and encodes them again, instead of forwarding them as they are.

python -m benchmarks.support.decoding_mirror OPTION ...
"""

import sys

from spark_kafka_native.__main__ import main
from spark_kafka_native._records.arrow import forward

if __name__ == "__main__":
    # What is measured is the same mirror without this one shortcut.
    forward._Forwarding._is_forwardable = lambda *_: False  # type: ignore[method-assign]  # noqa: SLF001
    sys.exit(main(["mirror", *sys.argv[1:]]))
