"""What pip users get: the source distribution, and the wheel that is built from it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from spark_kafka_native._records._kernel import VARIABLE

ROOT = Path(__file__).parents[2]
PACKAGES = ("spark_kafka_native", "broker_embedded")
BUILT_FROM = (
    "build_backend",
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "pyspark_pykafka.py",
    *PACKAGES,
)
USE = """
import sys
from pathlib import Path
from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.__main__ import main
from spark_kafka_native._records.arrow import kernel
assert kernel.is_compiled() and Path(kernel.__file__).is_relative_to(sys.argv[1]), kernel.__file__
with EmbeddedBroker() as broker:
    broker.create_topic("t", partitions=2)
    raise SystemExit(main(["topics", "--list", "--bootstrap-server", broker.bootstrap_servers]))
"""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both, built as ``python -m build`` builds them, from a copy without compiled files."""
    tree, directory = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.c"))
        else:
            shutil.copy2(ROOT / name, tree)
    command: list[str | Path] = [sys.executable, "-m", "build", "--outdir", directory, tree]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return directory


def files(suffixes: set[str]) -> set[str]:
    """Files of the packages in the repository."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in suffixes)
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_the_source_distribution_has_all_sources(distributions: Path) -> None:
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = files({".py", ".pyi", ".pyx", ".pxd", ".typed", ".txt", ".html", ".js", ".css"})
    assert sources - names == set()
    assert {"build_backend/kernel_backend.py", "setup.py", "pyspark_pykafka.py", "README.md"} <= names
    assert {name for name in names if Path(name).suffix in {".so", ".c"}} == set()


def test_the_wheel_has_the_packages_and_the_kernel_alone(distributions: Path) -> None:
    (path,) = distributions.glob("*.whl")
    assert path.name.split("-")[2:4] == ["cp311", "abi3"], "for every Python"
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/") and ".dist-info/" not in name}
    kernel = {name.removesuffix(".pyx") + ".abi3.so" for name in files({".pyx"})}
    assert names == files({".py", ".pyi", ".typed", ".txt", ".html", ".js", ".css"}) | kernel | {"pyspark_pykafka.py"}


def test_the_installed_wheel_runs(distributions: Path, tmp_path: Path) -> None:
    """In a new environment, with the dependencies of this one."""
    (wheel,) = distributions.glob("*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))
    python = environment / "bin" / "python"
    run(tmp_path, sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", wheel)
    (purelib / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    assert run(tmp_path, python, "-c", USE, purelib) == "t\n"
    assert run(tmp_path, environment / "bin" / "pykafka", "--version").startswith("spark-kafka-native ")


def run(directory: Path, *command: str | Path) -> str:
    """What a command prints in a directory that has no package of this repository."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", VARIABLE}}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout
