"""When the scan of records is compiled, and what it makes a process load."""

import subprocess
import sys

import pytest

from spark_kafka_native.records._kernel import VARIABLE

CODE = """
import sys
from spark_kafka_native.records import scan
assert "spark_kafka_native.records._kernel.scan" not in sys.modules
print(scan.compiled() is not None, "numpy" in sys.modules, "pyarrow" in sys.modules)
"""


def said(code: str, **environment: str) -> str:
    environment["PYTHONPATH"] = ":".join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_it_is_compiled_if_that_is_built_and_wanted() -> None:
    built = "spark_kafka_native.records._kernel.scan"
    assert said(CODE, **{VARIABLE: "off"}) == "False False False"
    not_built = f"import sys; sys.modules[{built!r}] = None" + CODE.replace("assert", "0 or")
    assert said(not_built) == "False False False"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        said(not_built, **{VARIABLE: "required"})
    assert "ModuleNotFoundError" in failed.value.stderr
    pytest.importorskip(built, reason="the kernel has not been built", exc_type=ImportError)
    assert said(CODE) == "True False False"
