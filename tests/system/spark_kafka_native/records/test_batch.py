"""What reading and writing batch headers makes a process load."""

import subprocess
import sys


def test_the_broker_pays_for_neither_numpy_nor_pyarrow() -> None:
    program = (
        "import sys, spark_kafka_native.records.batch, spark_kafka_native.records.compression, "
        "spark_kafka_native.records.control; "
        "sys.exit(', '.join({'numpy', 'pyarrow', 'zstandard', 'lz4', 'snappy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
