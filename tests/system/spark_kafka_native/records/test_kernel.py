import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spark_kafka_native
from spark_kafka_native._records._kernel import VARIABLE
from spark_kafka_native._records.arrow import kernel

PACKAGE = Path(spark_kafka_native.__file__).parent
SCAN = "spark_kafka_native._records._kernel.scan"
SCAN_CODE = f"""
import sys
from spark_kafka_native._records import scan
assert {SCAN!r} not in sys.modules
print(scan.compiled() is not None, "numpy" in sys.modules, "pyarrow" in sys.modules)
"""


def output(code: str, **environment: str) -> str:
    environment["PYTHONPATH"] = ":".join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def is_compiled(before: str = "", **environment: str) -> bool:
    code = f"import sys\n{before}\nfrom spark_kafka_native._records.arrow import kernel\nprint(kernel.is_compiled())"
    return output(code, **environment) == "True"


@pytest.mark.parametrize("wish", ["off", "auto"])
def test_the_variable_decides_about_the_kernel(wish: str) -> None:
    assert is_compiled(SPARK_KAFKA_NATIVE_KERNEL=wish) == (kernel.choose(wish) is not None)


@pytest.mark.parametrize(
    "module", ["memory", "batch_headers", "selection", "columns", "walk", "decode", "encode", "murmur2"]
)
def test_without_one_module_there_is_no_kernel(module: str) -> None:
    pytest.importorskip(
        "spark_kafka_native._records.arrow.compiled", reason="the kernel has not been built", exc_type=ImportError
    )
    assert not is_compiled(f"sys.modules['spark_kafka_native._records._kernel.{module}'] = None")


def warning_of(folder: Path, before: str) -> str:
    """The warning of a package without the kernel in ``folder``."""
    for name in ("", "_records", "_records/_kernel"):
        (folder / PACKAGE.name / name).mkdir()
        shutil.copy(PACKAGE / name / "__init__.py", folder / PACKAGE.name / name)
    return output(
        "import logging, sys, sysconfig\n"
        "logging.basicConfig(stream=sys.stdout)\n"
        f"{before}\n"
        "from spark_kafka_native._records import _kernel\n"
        "def load(): from spark_kafka_native._records._kernel import decode\n"
        "_kernel.if_wanted('auto', load)\n"
    )


@pytest.mark.parametrize("has_headers", [True, False])
def test_the_warning_says_how_to_build_the_kernel(tmp_path: Path, has_headers: bool) -> None:
    (tmp_path / "include").mkdir()
    if has_headers:
        (tmp_path / "include" / "Python.h").touch()
    library = "(each for each in sys.path if 'lib/python' in each and 'site-' not in each)"
    own_path = f"sys.path[:] = [{str(tmp_path)!r}, *{library}]"
    warning = warning_of(tmp_path, f"{own_path}; sysconfig.get_path = lambda name: {str(tmp_path)!r} + '/' + name")
    assert "To build it, run `pip install" in warning
    assert ("Python.h is missing (Debian and Ubuntu have it in python3-dev). To build it" in warning) != has_headers


@pytest.mark.parametrize("is_clone", [True, False])
def test_the_warning_tells_where_the_package_with_the_kernel_is(tmp_path: Path, is_clone: bool) -> None:
    """Odd entries of ``sys.path``, which Python ignores, do not matter."""
    pytest.importorskip(SCAN, reason="the kernel has not been built", exc_type=ImportError)
    if is_clone:
        (tmp_path / "pyproject.toml").touch()
    warning = warning_of(tmp_path, f"sys.path[:0] = [{str(tmp_path)!r}, b'/x', None]")
    assert f"The compiled kernel of the package in {tmp_path} cannot be imported: " in warning
    assert f"It hides the package in {PACKAGE.parent}, which has the kernel: " in warning
    assert (f"`pip install -e '{tmp_path}'`" in warning) == is_clone


def test_the_scan_is_compiled_if_it_is_built_and_wanted() -> None:
    assert output(SCAN_CODE, **{VARIABLE: "off"}) == "False False False"
    not_built = f"import sys; sys.modules[{SCAN!r}] = None" + SCAN_CODE.replace("assert", "0 or")
    assert output(not_built) == "False False False"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        output(not_built, **{VARIABLE: "required"})
    assert "ModuleNotFoundError" in failed.value.stderr
    pytest.importorskip(SCAN, reason="the kernel has not been built", exc_type=ImportError)
    assert output(SCAN_CODE) == "True False False"


def test_records_without_arrow_import_neither_numpy_nor_pyarrow() -> None:
    code = (
        "import sys, spark_kafka_native._records.batch, spark_kafka_native._records.compression, "
        "spark_kafka_native._records.control; "
        "print({'numpy', 'pyarrow', 'zstandard', 'lz4', 'snappy'} & set(sys.modules))"
    )
    assert output(code) == "set()"
