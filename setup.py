"""The compiled kernel; everything else is in pyproject.toml.

It is optional: where it cannot be built, the install succeeds, and records are read and written in plain Python. It
keeps to Python's limited API, so one build of it runs on this Python and every later one.
"""

import sysconfig
from pathlib import Path
from typing import Final

from setuptools import Extension, setup

FOLDER: Final = Path("spark_kafka_native", "_records", "_kernel")
LIMITED: Final = not sysconfig.get_config_var("Py_GIL_DISABLED")
"""Free-threaded Pythons have no limited API."""

setup(
    ext_modules=[
        Extension(
            ".".join(path.with_suffix("").parts),
            [str(path)],
            depends=[str(shared) for shared in sorted(FOLDER.glob("*.pxd"))],  # in the sdist, too
            extra_compile_args=["-O3", "-g0"],
            define_macros=[("Py_LIMITED_API", "0x030b0000")] if LIMITED else [],  # of 3.11, as requires-python
            py_limited_api=LIMITED,
            optional=True,
        )
        for path in sorted(FOLDER.glob("*.pyx"))
    ],
    options={
        "build_ext": {"cython_c_in_temp": True},  # no .c among the sources
        "bdist_wheel": {"py_limited_api": "cp311"} if LIMITED else {},
    },
)
