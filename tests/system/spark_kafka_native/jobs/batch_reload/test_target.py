from pathlib import Path

import pytest

from spark_kafka_native._jobs.batch_reload import command
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.storage.storage import Stored
from tests.support.spark.reload_run import Run


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "spark_session", lambda *_, **__: pytest.fail("Spark was started"))


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--clean"], ["--format", "noop", "--state"]])
def test_directory_with_other_files_is_refused(run: Run, tmp_path: Path, more: list[str]) -> None:
    target = tmp_path / "target"
    for name in ("bin", "include", "lib", "lib64"):
        (target / name).mkdir(parents=True)
    state = [str(target), "--target", str(tmp_path / "rows")] if "--state" in more else []
    status, given = run(*more, *state)
    option = "--state" if state else "--target"
    assert status == 2
    assert given == (
        f"batch_reload: {option}: {target} is not a target of this job and not empty: it has bin, include, lib, ...; "
        "name an empty or a new directory, or the target of an earlier load"
    )
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["bin", "include", "lib", "lib64", "target"]


@pytest.mark.usefixtures("no_spark")
def test_target_that_is_a_file_or_cannot_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run("--target", str(tmp_path / "file")) == (
        2,
        f"batch_reload: --target: {tmp_path / 'file'} is not a directory",
    )
    status, given = run("--target", str(tmp_path / "file" / "a"))
    assert (status, given) == (2, f"batch_reload: --target: {tmp_path / 'file' / 'a'} is not a directory")
    long = tmp_path / ("x" * 300)
    assert run("--target", str(long)) == (2, f"batch_reload: --target: {long / '_manifests'}: File name too long")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    status, given = run("--target", str(tmp_path / "loop"))
    assert (status, given) == (
        2,
        f"batch_reload: --target: {tmp_path / 'loop' / '_manifests'}: Too many levels of symbolic links",
    )
    assert run("--target", "file:///a%00b") == (2, "batch_reload: --target: 'file:///a%00b': a path has no NUL")
    if Path("/proc/self").exists():
        status, given = run("--target", "/proc/a")
        assert status == 2
        assert given.startswith("batch_reload: --target: /proc/a cannot be written to: ")


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("more", [[], ["--verify"], ["--clean"], ["--dry-run"]])
def test_target_whose_versions_cannot_be_listed(run: Run, monkeypatch: pytest.MonkeyPatch, more: list[str]) -> None:
    """An object store's client refuses the first request that the job makes."""

    def refuse(*_: object) -> dict[str, Stored]:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(LocalStorage, "list", refuse)
    assert run(*more) == (2, f"batch_reload: --target: {run.arguments[5]}: Access Denied")
