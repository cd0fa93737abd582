"""What foreign clients are made of: packages of npm, PyPI, Go and Debian, and Java classes compiled here.

Each is made once by the language's ordinary client and remembered in the cache directory of
`tests.support.programs.maven`, under a name that changes with everything that went into it. Nothing is installed on the
machine itself.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.programs import maven

TIMEOUT_S = 300.0


class ToolMissing(Exception):
    """A tool is not on this machine, or it could not make what was asked; the message says which and why."""


def npm_packages(source: Path) -> Path:
    """A copy of a Node program, directory `source`, beside the packages that its package-lock.json names."""

    def make(directory: Path) -> None:
        for file in _files(source):
            shutil.copy(file, directory)
        # Scripts of packages would only compile what the client can do without.
        run(_found("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", cwd=directory)

    _found("node")
    return _made(source.name, _contents(source), make)


def go_program(source: Path) -> Path:
    """The program of the Go module in directory `source`, compiled; its go.sum pins what it is made of."""

    def make(directory: Path) -> None:
        run(_found("go"), "build", "-trimpath", "-buildvcs=false", "-o", str(directory / "program"), ".", cwd=source)

    return _made(source.name, _contents(source), make) / "program"


def java_classes(name: str, sources: Sequence[Path], jars: Sequence[Path]) -> Path:
    """The directory with the classes of `sources`, compiled against `jars`."""

    def make(directory: Path) -> None:
        class_path = os.pathsep.join(map(str, jars))
        run(_found("javac"), "-nowarn", "-proc:none", "-d", str(directory), "-cp", class_path, *map(str, sources))

    return _made(name, [*(path.read_bytes() for path in sources), *(jar.name.encode() for jar in jars)], make)


def python_environment(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of a virtual environment, of this Python's version, in which these packages are installed."""

    def make(directory: Path) -> None:
        run(sys.executable, "-m", "venv", str(directory))
        python = str(directory / "bin" / "python")
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1", *requirements)

    version = ".".join(map(str, sys.version_info[:2]))
    return _made(f"{name}-py{version}", [text.encode() for text in requirements], make) / "bin" / "python"


def python_source(requirement: str) -> Path:
    """The unpacked source distribution of one PyPI package, given as `name==version`."""

    def make(directory: Path) -> None:
        wanted = ("--no-deps", "--no-binary=:all:", "--retries=1", requirement)
        run(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *wanted, cwd=directory)
        (archive,) = directory.glob("*.tar.gz")
        run(_found("tar"), "xzf", archive.name, "--strip-components=1", cwd=directory)
        archive.unlink()

    return _made(requirement.replace("==", "-") + "-source", [requirement.encode()], make)


def python_packages(name: str, requirements: Sequence[str], environment: Mapping[str, str]) -> Path:
    """A directory to import packages from, which are built here with these variables in the environment."""

    def make(directory: Path) -> None:
        wanted = ("--no-binary", name, "--retries=1", "--target", str(directory), *requirements)
        command = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
        run(*command, environment={**os.environ, **environment})

    version = ".".join(map(str, sys.version_info[:2]))
    inputs = [*requirements, *(f"{key}={value}" for key, value in sorted(environment.items()))]
    return _made(f"{name}-packages-py{version}", [text.encode() for text in inputs], make)


def debian_package(package: str) -> Path:
    """The directory that a package is unpacked in, with those of its dependencies that this machine does not have."""
    return _made(f"debian-{package}", [package.encode()], lambda directory: _unpack_debian(package, directory))


def debian_program(package: str, program: str) -> list[str]:
    """How to start a program: the one on the PATH or in /usr/sbin, or that of Debian's package."""
    on_path = shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))
    if on_path is not None:
        return [on_path]
    root = debian_package(package)
    libraries = ":".join(sorted({str(path.parent) for path in root.rglob("*.so*")}))
    folder = next((name for name in ("bin", "sbin") if (root / "usr" / name / program).exists()), None)
    if folder is None:
        raise ToolMissing(f"Debian's package {package} has no program {program}")
    return ["env", f"LD_LIBRARY_PATH={libraries}", str(root / "usr" / folder / program)]


def _unpack_debian(package: str, directory: Path) -> None:
    """Fetch `package`, and what of its dependencies is not installed here, and unpack them into `directory`."""
    apt, dpkg = _found("apt-get"), _found("dpkg-deb")
    scratch = directory / "apt"
    for place in ("state/lists/partial", "cache/archives/partial"):
        (scratch / place).mkdir(parents=True)
    options = [
        f"Dir::State={scratch}/state",
        "Dir::State::status=/var/lib/dpkg/status",
        f"Dir::Cache={scratch}/cache",
        "APT::Sandbox::User=",
        "Debug::NoLocking=1",
        "Acquire::Retries=1",
    ]
    command = [apt, "-qq", "-y", *(part for option in options for part in ("-o", option))]
    run(*command, "update")
    run(*command, "install", "--no-install-recommends", "--download-only", package)
    for archive in sorted(scratch.glob("cache/archives/*.deb")):
        run(dpkg, "-x", str(archive), str(directory))
    shutil.rmtree(scratch)


def run(*command: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """What a command printed to its standard output. Raises ToolMissing: it failed or took too long."""
    tool = Path(command[0]).name
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=cwd, env=environment
        )
    except subprocess.TimeoutExpired:
        raise ToolMissing(f"{tool} did not end within {TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip()
        raise ToolMissing(f"{' '.join([tool, *command[1:3]])}: {said[-600:]}")
    return done.stdout


def _found(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        raise ToolMissing(f"no {tool} on the PATH")
    return path


def _files(source: Path) -> list[Path]:
    return sorted(path for path in source.iterdir() if path.is_file())


def _contents(source: Path) -> list[bytes]:
    return [part for path in _files(source) for part in (path.name.encode(), path.read_bytes())]


_failures: dict[Path, ToolMissing] = {}
"""What could not be made before in this process; it is not tried once more."""


def _made(name: str, inputs: Sequence[bytes], make: Callable[[Path], None]) -> Path:
    """The directory that `make` fills: the remembered one if it was filled from the same inputs."""
    digest = hashlib.sha256(b"\0".join(inputs)).hexdigest()[:12]
    directory = maven.cache_dir() / "foreign" / f"{name}-{digest}"
    if directory in _failures:
        raise _failures[directory]
    directory.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{directory}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        finished = directory / ".finished"
        if not finished.exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            try:
                make(directory)
            except ToolMissing as error:
                _failures[directory] = error
                raise
            finished.touch()
    return directory
