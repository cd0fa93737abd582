"""Which kernel a process takes that has just started."""

import subprocess
import sys

import pytest

from spark_kafka_native.records.arrow import kernel


def is_compiled(before: str = "", **environment: str) -> bool:
    """Whether a process of its own, which does something ``before``, takes the compiled kernel."""
    code = f"import sys\n{before}\nfrom spark_kafka_native.records.arrow import kernel\nprint(kernel.is_compiled())"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout.split() == ["True"]


@pytest.mark.parametrize("wish", ["off", "auto"])
def test_the_variable_is_looked_at_once(wish: str) -> None:
    assert is_compiled(SPARK_KAFKA_NATIVE_KERNEL=wish) == (kernel.choose(wish) is not None)


@pytest.mark.parametrize(
    "module", ["memory", "batch_headers", "selection", "columns", "walk", "decode", "encode", "murmur2"]
)
def test_one_module_missing_is_all_of_them_missing(module: str) -> None:
    pytest.importorskip(
        "spark_kafka_native.records.arrow.compiled", reason="the kernel has not been built", exc_type=ImportError
    )
    assert not is_compiled(f"sys.modules['spark_kafka_native.records._kernel.{module}'] = None")
