"""The build backend on a machine without a C compiler: a ``ziglang`` of the test writes its arguments as its output."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

ZIGLANG = """
import sys
from pathlib import Path
assert sys.argv[1:3] == ["cc", "-mcpu=baseline"]
Path(sys.argv[sys.argv.index("-o") + 1]).write_text(" ".join(sys.argv[1:]))
"""

SETUP = """
from setuptools import Extension, setup
setup(name="answers", version="1", ext_modules=[Extension("answers", ["answers.c"])])
"""

BUILD = """
import sysconfig
sysconfig.get_path = lambda name, *_, path=sysconfig.get_path: "headers" if name == "include" else path(name)
sysconfig.get_config_vars().update(CC="no-cc", LDSHARED="no-cc -shared -Wl,-Bsymbolic-functions")
import kernel_backend
assert kernel_backend.ZIG in kernel_backend.get_requires_for_build_wheel()
kernel_backend.build_wheel("wheels")
"""


WITHOUT_HEADERS = """
import sysconfig
sysconfig.get_config_vars().update(CC="no-cc")
sysconfig.get_path = lambda name: "no-folder"
import kernel_backend
assert kernel_backend.ZIG not in kernel_backend.get_requires_for_build_wheel()
"""


def test_without_headers_of_python_no_compiler_is_downloaded(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", WITHOUT_HEADERS],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "build_backend")},
        check=True,
    )


def test_without_a_c_compiler_zig_links_without_the_linker_options_of_python(tmp_path: Path) -> None:
    """zig cc refuses some linker options of Debian's Python."""
    ziglang = tmp_path / "ziglang"
    ziglang.mkdir()
    (ziglang / "__init__.py").touch()
    (ziglang / "__main__.py").write_text(ZIGLANG)
    project = tmp_path / "project"
    project.mkdir()
    (project / "setup.py").write_text(SETUP)
    (project / "answers.c").touch()
    (project / "headers").mkdir()
    (project / "headers" / "Python.h").touch()
    path = [str(tmp_path), str(ROOT / "build_backend")]
    done = subprocess.run(
        [sys.executable, "-c", BUILD],
        cwd=project,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = project.glob("wheels/*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (extension,) = (name for name in archive.namelist() if name.endswith(".so"))
        linked = archive.read(extension).decode()
    assert linked.startswith("cc -mcpu=baseline -shared ")
    assert "-Wl," not in linked
