"""``pykafka-python``: this environment's Python, which imports the installed pyspark rather than an archive of it.

Spark starts its Python processes with ``PYTHONPATH`` set to its archive ``python/lib/pyspark.zip``, that of Py4J, and a
jar. Python compiles what it imports from an archive again in every process, and looks for every other module in the
archives first. In an installed Spark the same pyspark lies beside the archive, compiled once.

It is for ``PYSPARK_PYTHON`` and ``PYSPARK_DRIVER_PYTHON``, which name the commands that Spark starts. The command runs
a module (``-m``) in its own process, or in a process of the fork server if the module plans queries. With any other
arguments it replaces itself by Python.
"""

import os
import runpy
import sys
import sysconfig
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from spark_kafka_native._spark.fork_server import run_in_forked_process

COMMAND: Final = "pykafka-python"
PYTHON_VARIABLES: Final = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Environment variables of the driver that name the Python of Spark's processes.

Spark starts the processes that plan queries with the second one, if it is set and Spark has found the data source
itself.
"""
PLANNING_MODULES: Final = (
    "encodings.idna",  # for names of hosts
    "importlib.metadata",  # some releases of Python import it when finders forget their directories
    "pyspark.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark_pykafka",
    "spark_kafka_native._spark.options.parsing",
    "spark_kafka_native._spark.planning.batch",
    "spark_kafka_native._spark.planning.cluster_offsets",
    "spark_kafka_native._spark.planning.stream",
    "spark_kafka_native._spark.sink.rows",
    "spark_kafka_native._spark.sink.writer",
    "spark_kafka_native._spark.source.batch_reader",
    "spark_kafka_native._spark.source.layout",
    "spark_kafka_native._spark.source.offset_texts",
    "spark_kafka_native._spark.source.stream_reader",
)
"""What processes that plan queries import, by themselves or with other modules. Some releases of Spark lack some."""
_ARCHIVE: Final = "pyspark.zip"
_SOURCES: Final = "-src.zip"
"""The end of the name of another package's archive."""


def worker_python() -> str:
    """The ``PYSPARK_PYTHON`` for workers on this machine: ``pykafka-python``, with which queries start earlier.

    It is the path of that command or, without it or in an environment that was moved, the path of this Python.

    >>> os.environ["PYSPARK_PYTHON"] = worker_python()  # before the session is built
    """
    # The first lines of a command that pip installs name its Python. In an environment that was copied or moved they
    # name that of the original.
    command = Path(sysconfig.get_path("scripts"), COMMAND)
    try:
        head = command.read_text(encoding="utf-8", errors="replace").splitlines()[:2]
    except OSError:
        return sys.executable
    names = tuple(f"{before}{Path(sys.executable).parent}{os.sep}" for before in ("!", " ", '"'))
    return str(command) if any(name in line for line in head for name in names) else sys.executable


def main() -> None:
    """Run Python with the same arguments, and a ``PYTHONPATH`` without Spark's archives.

    A module, which Spark's processes are (``-m``), is run without another start of Python.
    """
    given = os.environ.get("PYTHONPATH")
    entries = given.split(os.pathsep) if given else []
    instead = installed_instead(entries, sys.path)
    if given:
        os.environ["PYTHONPATH"] = os.pathsep.join(instead)
    if sys.argv[1:2] != ["-m"] or len(sys.argv) < 3:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606  # no shell
    sys.path[:] = _path_of_module({os.path.abspath(entry) for entry in entries}, instead)
    if plans_queries(sys.argv[2:]):
        run_in_forked_process(PLANNING_MODULES)
    module = sys.argv[2]
    del sys.argv[:2]
    script = vars(sys.modules["__main__"])
    for name in [each for each in script if not each.startswith("__")]:  # the module must not see those of this command
        del script[name]
    if module != "__main__":
        sys.modules.pop(module, None)  # the fork server has imported it; runpy would warn
    runpy._run_module_as_main(module)  # type: ignore[attr-defined]  # noqa: SLF001  # as ``python -m`` does, with its errors


def plans_queries(arguments: Sequence[str]) -> bool:
    """Whether a module and its arguments are of a process that plans queries. Others of Spark run tasks."""
    module = arguments[1] if arguments[0] == "pyspark.daemon" and len(arguments) > 1 else arguments[0]
    return module.startswith("pyspark.sql.")


def _path_of_module(entries: Set[str], instead: Sequence[str]) -> Iterator[str]:
    """``sys.path`` of a module that Python runs with ``instead`` as ``PYTHONPATH``. This process has ``entries``."""
    if not sys.flags.safe_path:
        with suppress(FileNotFoundError):  # the directory is removed
            yield os.getcwd()
    yield from map(os.path.abspath, instead)
    own = sys.path if sys.flags.safe_path else sys.path[1:]  # without the directory of this command
    yield from (entry for entry in own if entry not in entries)


def installed_instead(entries: Sequence[str], system: Sequence[str]) -> Sequence[str]:
    """The entries of ``PYTHONPATH`` with the installed pyspark in place of Spark's archives.

    They stay as they are unless Python would then import pyspark from the same Spark as before. The archive of Py4J
    stays unless its version is installed. ``system`` is where Python looks after ``entries``; it may have them, too.
    """
    archive = next((Path(entry) for entry in entries if Path(entry).name == _ARCHIVE), None)
    if archive is None or archive.parts[-3:-1] != ("python", "lib"):
        return entries
    home = archive.parents[2]
    before = {os.path.abspath(entry) for entry in entries}  # as in sys.path
    after = [entry for entry in system if os.path.abspath(entry) not in before]
    try:
        instead = list(_without_archives(entries, home))
        if not _has_pyspark_of(home, [*instead, *after]):
            return entries
        sources = {entry for entry in entries if _is_sources(entry, home)}
        kept = {entry for entry in sources if not _is_installed(entry, [*instead, *after])}
        return list(_without_archives(entries, home, kept)) if kept else instead
    except OSError:  # a directory that Python ignores
        return entries


def _without_archives(entries: Sequence[str], home: Path, kept: Set[str] = frozenset()) -> Iterator[str]:
    for entry in entries:
        path = Path(entry)
        if path == home / "python" / "lib" / _ARCHIVE:
            if (home / "python" / "pyspark" / "__init__.py").is_file():  # with pip, the home itself is the package
                yield str(home / "python")
        elif entry in kept or not (_is_sources(entry, home) or _is_core_jar(path, home)):
            yield entry


def _is_core_jar(path: Path, home: Path) -> bool:
    """Whether a path is the jar that Spark adds, which has no Python. Spark resolves links in it, not in the home."""
    return path.name.startswith("spark-core_") and os.path.realpath(path.parent) == os.path.realpath(home / "jars")


def _is_sources(entry: str, home: Path) -> bool:
    return Path(entry).parent == home / "python" / "lib" and entry.endswith(_SOURCES)


def _has_pyspark_of(home: Path, path: Sequence[str]) -> bool:
    found = _found("pyspark", path)
    installed = (home / "__init__.py", home / "python" / "pyspark" / "__init__.py")
    return found is not None and any(file.is_file() and file.samefile(found) for file in installed)


def _is_installed(archive: str, path: Sequence[str]) -> bool:
    """Whether Python would import the package of an archive such as ``py4j-0.10.9.9-src.zip``, in its version."""
    package = Path(archive).name.removesuffix(_SOURCES)
    found = _found(package.partition("-")[0], path)
    return found is not None and (found.parents[1] / f"{package}.dist-info").is_dir()


def _found(package: str, path: Sequence[str]) -> Path | None:
    """The file that Python would import as a package, if it is not in an archive."""
    spec = PathFinder.find_spec(package, path)
    file = Path(spec.origin) if spec and spec.origin else None
    return file if file and file.is_file() else None
