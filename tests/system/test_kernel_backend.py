"""The build backend on a machine without a C compiler: a ``ziglang`` of the test calls the compiler of this machine.

As ``zig cc`` it refuses options that GCC has.
"""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

ZIGLANG = """
import subprocess, sys
assert sys.argv[1:3] == ["cc", "-mcpu=baseline"], sys.argv
if refused := [option for option in sys.argv if option.startswith("-Wl,-Bsymbolic")]:
    sys.exit(f"error: unsupported linker arg: {refused[0]}")
sys.exit(subprocess.call([*COMPILER, *sys.argv[3:]]))
"""

SETUP = """
from setuptools import Extension, setup
setup(name="answers", version="1", ext_modules=[Extension("answers", ["answers.c"])])
"""

BUILD = """
import sysconfig
sysconfig.get_config_vars().update(CC="no-cc", LDSHARED="no-cc -shared -Wl,-Bsymbolic-functions")
import kernel_backend
assert kernel_backend.ZIG in kernel_backend.get_requires_for_build_wheel()
kernel_backend.build_wheel("wheels")
"""

EXTENSION = """
#include <Python.h>
static struct PyModuleDef answers = {PyModuleDef_HEAD_INIT, "answers", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_answers(void)
{
    PyObject *module = PyModule_Create(&answers);
    PyModule_AddIntConstant(module, "answer", 42);
    return module;
}
"""


def test_a_kernel_is_built_without_a_c_compiler_where_python_has_the_linker_options_of_debian(tmp_path: Path) -> None:
    ziglang = tmp_path / "ziglang"
    ziglang.mkdir()
    (ziglang / "__init__.py").touch()
    (ziglang / "__main__.py").write_text(ZIGLANG.replace("COMPILER", repr(sysconfig.get_config_var("CC").split())))
    project = tmp_path / "project"
    project.mkdir()
    (project / "setup.py").write_text(SETUP)
    (project / "answers.c").write_text(EXTENSION)

    run(BUILD, folder=project, path=[tmp_path, ROOT / "build_backend"])
    (wheel,) = project.glob("wheels/*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site-packages")
    assert run("import answers; print(answers.answer)", folder=tmp_path, path=[tmp_path / "site-packages"]) == "42\n"


def run(code: str, folder: Path, path: list[Path]) -> str:
    """What ``code`` prints in an interpreter without the compilers that the environment names."""
    environment = {name: value for name, value in os.environ.items() if name not in {"CC", "LDSHARED"}}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**environment, "PYTHONPATH": os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
