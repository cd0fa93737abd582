import errno
import os
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from spark_kafka_native._spark.worker_python import COMMAND, installed_instead, plans_queries, worker_python

PY4J = "py4j-0.10.9.9"


def spark_home(home: Path, *, pyspark: Path) -> list[str]:
    """What Spark puts on ``PYTHONPATH`` if its home is ``home`` and its pyspark is installed as ``pyspark``."""
    package(pyspark.parent, pyspark.name)
    library = home / "python" / "lib"
    library.mkdir(parents=True)
    for name, archive in (("pyspark", "pyspark.zip"), ("py4j", f"{PY4J}-src.zip")):
        with zipfile.ZipFile(library / archive, "w") as file:
            file.writestr(f"{name}/__init__.py", "")
    return [
        str(library / "pyspark.zip"),
        str(library / f"{PY4J}-src.zip"),
        str(home / "jars" / "spark-core_2.13-4.2.0.jar"),
    ]


def site_packages(directory: Path, py4j: str = PY4J) -> str:
    (directory / f"{py4j}.dist-info").mkdir(parents=True)
    package(directory, "py4j")
    return str(directory)


def package(directory: Path, name: str) -> None:
    (directory / name).mkdir(parents=True)
    (directory / name / "__init__.py").touch()


def test_a_spark_that_pip_installed_is_imported_from_site_packages(tmp_path: Path) -> None:
    site = site_packages(tmp_path)
    archives = spark_home(tmp_path / "pyspark", pyspark=tmp_path / "pyspark")
    assert installed_instead([*archives, "of the user"], [*archives, "of the user", site]) == ["of the user"]


def test_a_distribution_of_spark_is_imported_from_its_directory(tmp_path: Path) -> None:
    home = tmp_path / "spark-4.2.0"
    archives = spark_home(home, pyspark=home / "python" / "pyspark")
    site = site_packages(tmp_path / "site")
    assert installed_instead([*archives, "of the user"], [site]) == [str(home / "python"), "of the user"]


def test_a_link_to_the_home_is_followed(tmp_path: Path) -> None:
    home = tmp_path / "site" / "pyspark"
    archives = spark_home(home, pyspark=home)
    link = tmp_path / "spark"
    link.symlink_to(home)
    linked = [entry if entry.endswith(".jar") else entry.replace(str(home), str(link)) for entry in archives]
    assert installed_instead(linked, [site_packages(tmp_path / "site")]) == []


def test_spark_home_with_a_slash_at_its_end(tmp_path: Path) -> None:
    site = site_packages(tmp_path)
    archives = [
        entry.replace("pyspark/", "pyspark//", 1)
        for entry in spark_home(tmp_path / "pyspark", pyspark=tmp_path / "pyspark")
    ]
    assert installed_instead(archives, [*map(os.path.abspath, archives), site]) == []


def test_other_archives_and_jars_stay(tmp_path: Path) -> None:
    archives = spark_home(tmp_path / "pyspark", pyspark=tmp_path / "pyspark")
    others = [str(tmp_path / PY4J), str(tmp_path / "pyspark" / "jars" / "with-python.jar"), "", "spark-core_2.13.jar"]
    assert installed_instead([*archives, *others], [site_packages(tmp_path)]) == others


def test_another_py4j_is_not_taken(tmp_path: Path) -> None:
    archives = spark_home(tmp_path / "pyspark", pyspark=tmp_path / "pyspark")
    site = site_packages(tmp_path, "py4j-0.10.9.8")
    assert installed_instead([*archives, "of the user"], [site]) == [archives[1], "of the user"]


def test_the_py4j_of_a_user_is_not_taken(tmp_path: Path) -> None:
    site = site_packages(tmp_path)
    archives = spark_home(tmp_path / "pyspark", pyspark=tmp_path / "pyspark")
    package(tmp_path / "user", "py4j")
    entries = [*archives, str(tmp_path / "user")]
    assert installed_instead(entries, [site]) == [archives[1], str(tmp_path / "user")]
    entries = [str(tmp_path / "user"), *archives]
    assert installed_instead(entries, [site]) == [str(tmp_path / "user"), archives[1]]


def test_another_pyspark_is_not_taken(tmp_path: Path) -> None:
    archives = spark_home(tmp_path / "spark" / "pyspark", pyspark=tmp_path / "spark" / "pyspark")
    other = tmp_path / "other"
    spark_home(tmp_path / "elsewhere", pyspark=other / "pyspark")
    site = site_packages(tmp_path / "spark")
    entries = [*archives, str(other)]
    assert installed_instead(entries, [site]) == entries  # the user's entry would come first
    assert installed_instead(archives, [str(other)]) == archives  # Spark's package is not installed
    assert installed_instead(archives, []) == archives


def test_a_home_that_may_not_be_read_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archives = spark_home(tmp_path / "pyspark", pyspark=tmp_path / "pyspark")
    site = site_packages(tmp_path)

    def is_file(path: Path) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "is_file", is_file)
    assert installed_instead(archives, [site]) == archives


@pytest.mark.parametrize(
    "entries", [[], [""], ["a", "b"], ["pyspark.zip"], ["python/lib/pyspark.zip"], ["/pyspark.zip"]]
)
def test_other_paths_stay_as_they_are(entries: list[str]) -> None:
    assert installed_instead(entries, sys.path) == entries


PYTHON = "/with a space/env/bin/python"


@pytest.mark.parametrize(
    ("first_lines", "runs"),
    [
        (None, False),
        ("", False),
        (f"#!{PYTHON}3.11\n", True),
        (f'#!/bin/sh\n\'\'\'exec\' "{PYTHON}" "$0" "$@"\n', True),
        (f"#!/original{PYTHON}\n", False),
        ("#!/usr/bin/env python\n", False),
    ],
)
def test_python_is_named_where_the_command_cannot_run(
    first_lines: str | None, runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(sys, "executable", PYTHON)
    command = tmp_path / COMMAND
    if first_lines is not None:
        command.write_text(first_lines)
    assert worker_python() == (str(command) if runs else PYTHON)


@pytest.mark.parametrize(
    ("arguments", "plans"),
    [
        (["pyspark.daemon", "pyspark.sql.worker.plan_data_source_read"], True),
        (["pyspark.sql.streaming.python_streaming_source_runner"], True),
        (["pyspark.daemon", "pyspark.worker"], False),
        (["pyspark.daemon"], False),
        (["pyspark.worker"], False),
        (["pip", "pyspark.sql.worker.plan_data_source_read"], False),
    ],
)
def test_processes_for_tasks_are_not_of_the_fork_server(arguments: list[str], plans: bool) -> None:
    assert plans_queries(arguments) == plans
