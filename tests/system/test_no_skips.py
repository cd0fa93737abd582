import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

SKIPPING = """
import pytest

def test_runs(): pass

def test_ends_itself(): pytest.skip("no Java here")

@pytest.mark.skip(reason="marked so")
def test_is_marked(): pass

@pytest.fixture
def server(): pytest.skip("no server here")

def test_has_no_server(server): pass

@pytest.mark.xfail(strict=True, reason="known")
def test_is_known_to_fail(): raise AssertionError
"""
WHOLE_MODULE = """
import pytest
pytest.importorskip("no_such_module_anywhere")
def test_never(): pass
"""


def _run(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_skipping.py").write_text(SKIPPING, encoding="utf-8")
    (directory / "test_whole_module.py").write_text(WHOLE_MODULE, encoding="utf-8")
    plugins = ("-p", "no:cacheprovider", "-p", "tests.support.no_skips")
    command = [sys.executable, "-m", "pytest", *plugins, "--rootdir", str(directory), "-v", "-rA", str(directory)]
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": ""}
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, cwd=directory, env=environment
    )


def test_without_the_option_skips_are_skips(tmp_path: Path) -> None:
    done = _run(tmp_path)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert "1 passed, 4 skipped, 1 xfailed" in done.stdout


@pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")])
def test_a_skip_fails_with_its_reason(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = _run(tmp_path, "--no-skips", "--continue-on-collection-errors", *workers)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "1 failed, 1 passed, 1 xfailed, 3 errors" in done.stdout
    for reason in ("no Java here", "marked so", "no server here", "could not import 'no_such_module_anywhere'"):
        assert f"--no-skips: Skipped: {reason}" in done.stdout
