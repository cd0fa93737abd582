"""The build backend: setuptools', with a C compiler from PyPI where the machine has none.

Installers ask `get_requires_for_build_wheel` what a build needs, and install it for the build only. Where no C compiler
works, that is ``ziglang``, whose ``zig cc`` then builds the compiled kernel. If it cannot, or Python's headers are
missing, setuptools installs the package without the kernel.
"""

import importlib.util
import os
import platform
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None

ZIG: Final = "ziglang>=0.13"
ZIG_MACHINES: Final = {"x86_64", "aarch64", "arm64"}
"""Machines that ziglang has wheels for on Linux and macOS. An installer would fail on another one."""


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """The requirements of `build_wheel`."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_compiler_requirements()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """The requirements of `build_editable`."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_compiler_requirements()]


def build_wheel(folder: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel in ``folder``, return its file name."""
    with _compiler():
        name: str = build_meta.build_wheel(folder, config_settings, metadata_directory)
    return name


def build_editable(folder: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Build the wheel of an editable install in ``folder``, return its file name."""
    with _compiler():
        name: str = build_meta.build_editable(folder, config_settings, metadata_directory)
    return name


def _compiler_requirements() -> list[str]:
    has_headers = Path(sysconfig.get_path("include"), "Python.h").is_file()  # without them no compiler helps
    return [ZIG] if has_headers and platform.machine() in ZIG_MACHINES and not _has_compiler() else []


def _has_compiler() -> bool:
    """Whether the compiler that setuptools will call compiles a program that needs a header of the C library."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "program.c")
        source.write_text("#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n", encoding="utf-8")
        try:
            done = subprocess.run([*command, source, "-o", Path(folder, "program")], capture_output=True, check=False)
        except OSError:
            return False
        return done.returncode == 0


@contextmanager
def _compiler() -> Iterator[None]:
    """Let setuptools call ``zig cc`` where that has been installed because there is no other compiler."""
    if _has_compiler() or importlib.util.find_spec("ziglang") is None:
        yield
        return
    # Other machines of a cluster may lack features of this processor.
    command = f"{shlex.quote(sys.executable)} -m ziglang cc -mcpu=baseline"
    commands = {"CC": command}
    if sys.platform == "linux":  # zig cc refuses some linker options of this Python, for example those of Debian's
        commands["LDSHARED"] = f"{command} -shared"
    with tempfile.TemporaryDirectory() as cache:
        caches = {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
        with mock.patch.dict(os.environ, commands | caches):
            yield
