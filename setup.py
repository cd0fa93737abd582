"""The compiled kernel; everything else is in pyproject.toml.

It is optional: where it cannot be built, the install succeeds, and records are read and written in plain Python.
"""

from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("spark_kafka_native", "_records", "_kernel")

setup(
    ext_modules=[
        Extension(
            ".".join(path.with_suffix("").parts),
            [str(path)],
            depends=[str(shared) for shared in sorted(FOLDER.glob("*.pxd"))],  # in the sdist, too
            extra_compile_args=["-O3", "-g0"],
            optional=True,
        )
        for path in sorted(FOLDER.glob("*.pyx"))
    ],
    options={"build_ext": {"cython_c_in_temp": True}},  # no .c among the sources
)
