"""The steps that go record by record, in C and without the GIL: payloads to Arrow's buffers and back, murmur2.

Cython has buffers and pointers only; `arrow.compiled` makes Arrow columns of them, and imports all of these modules.

* ``memory``: views of memory that others own, and memory that is allocated here
* ``varint``: variable-length integers
* ``batch_headers``: the headers of the batches of a buffer, as a table of numbers
* ``selection``: which of these batches have records to show, as far as the headers decide it
* ``columns``: byte strings in Arrow's layout
* ``walk``: the records of a batch, field by field
* ``decode``: batches to columns
* ``encode``: columns to records
* ``scan``: times, offsets and missing keys of the records of a batch; the bundled broker uses it, without numpy
* ``murmur2``: the hash that Java's partitioner makes of keys

A ``.pxd`` declares a module to the others, and is compiled into them.
"""

import logging
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

logger = logging.getLogger(__name__)

VARIABLE = "SPARK_KAFKA_NATIVE_KERNEL"

_WARNING = (
    "The compiled kernel of the package in %s cannot be imported: %s. Records are read and written in plain Python, "
    "ten to a hundred times as slow. %s; or set %s=off to have no warning."
)
_REQUIRED = (
    "{variable} is required, but the compiled kernel of the package in {own} cannot be imported: {error}. {advice}"
)
_BUILD = (
    "To build it, run `pip install --verbose --force-reinstall --no-deps .` in a clone of spark-kafka-native, which "
    "shows the compiler's errors"
)
_HEADERS = "Python.h is missing (Debian and Ubuntu have it in python3-dev). "
_HIDDEN = "It hides the package in {installed}, which has the kernel: {advice}"
_CLONE = "start Python in another directory, remove the clone from PYTHONPATH, or run `pip install -e '{own}'`"
_NO_CLONE = "remove the package in {own}, or that directory from sys.path"
_reasons: list[str] = []
"""The reason of the warning, once it has been logged."""


def if_wanted(wish: str, load: Callable[[], T]) -> T | None:
    """The result of ``load``, which imports the kernel; None if it is off or not built. ``wish``: VARIABLE's value.

    Without ``off``, a process whose kernel has not been built logs one warning.

    Raises ImportError: it is required and has not been built. ValueError: ``wish`` is not one of the three.
    """
    if wish not in {"", "auto", "off", "required"}:
        raise ValueError(f"{VARIABLE} is {wish!r}; it can be auto, off or required")
    if wish == "off":
        return None
    try:
        return load()
    except ImportError as error:
        own = Path(__file__).parents[3]
        if wish == "required":
            raise ImportError(_REQUIRED.format(variable=VARIABLE, own=own, error=error, advice=_advice(own))) from error
        if not _reasons:
            _reasons.append(str(error))
            logger.warning(_WARNING, own, error, _advice(own), VARIABLE)
        return None


def _advice(own: Path) -> str:
    """What to do about the missing kernel of the package in the directory ``own``."""
    names = __name__.split(".")
    folder = Path(__file__).resolve().parent
    for entry in sys.path:
        with suppress(Exception):  # Python ignores entries that are no text, or no directory
            other = Path(entry).resolve()
            its_folder = Path(other, *names).resolve()
            if its_folder != folder and PathFinder.find_spec("decode", [str(its_folder)]):
                advice = _CLONE if (own / "pyproject.toml").is_file() else _NO_CLONE
                return _HIDDEN.format(installed=other, advice=advice.format(own=own))
    has_headers = Path(sysconfig.get_path("include"), "Python.h").is_file()
    return _BUILD if has_headers else _HEADERS + _BUILD
