"""The suite of Pythons: what it chooses, and what it keeps."""

import dataclasses
import json
import zipfile
from pathlib import Path

import pytest

from tests.long import matrix
from tests.long.matrix import MatrixError, Row, oldest_dependencies, pythons_on_the_path, read_rows, wheel_for

METADATA = """\
Metadata-Version: 2.4
Name: spark-kafka-native
Requires-Dist: click>=8.4
Requires-Dist: google-re2>=1.1.20251105
Requires-Dist: pyspark<4.4,>=4.2; extra == "spark"
"""
ROW = Row(
    python="3.12.1",
    machine="x86_64",
    system="Debian",
    pyspark="",
    dependencies="newest",
    tests="all",
    passed=1,
    skipped=0,
    failed=[],
    commit="c",
    day="2026-11-29",
)


def test_oldest_dependencies_are_the_lower_bounds(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("spark_kafka_native-1.dist-info/METADATA", METADATA)
    assert oldest_dependencies(wheel) == ["click==8.4", "google-re2==1.1.20251105"]


def test_pythons_are_those_of_the_path_from_3_11(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name in (
        ("a", "python3.12"),
        ("b", "python3.12"),
        ("b", "python3.9"),
        ("b", "python3.11"),
        ("b", "python3.12-config"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).touch()
    monkeypatch.setenv("PATH", f"{tmp_path}/a:{tmp_path}/b")
    assert pythons_on_the_path() == [f"{tmp_path}/b/python3.11", f"{tmp_path}/a/python3.12"]


def test_the_wheel_of_a_machine(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match="has 0 wheels for aarch64 instead of one: run make wheels"):
        wheel_for("aarch64", tmp_path)
    wheel = tmp_path / "spark_kafka_native-1-cp311-abi3-manylinux2014_aarch64.manylinux_2_17_aarch64.whl"
    wheel.touch()
    assert wheel_for("aarch64", tmp_path) == wheel


def test_a_row_replaces_that_of_the_same_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "matrix.jsonl"
    monkeypatch.setattr(matrix, "LOG", log)
    assert read_rows() == []
    newer, other = dataclasses.replace(ROW, passed=2), dataclasses.replace(ROW, python="3.9.1")
    log.write_text("".join(f"{json.dumps(dataclasses.asdict(row))}\n" for row in (ROW, other, newer)))
    assert read_rows() == [other, newer]
