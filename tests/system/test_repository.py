"""Rules of the repository: docstrings, module sizes, tests for each package, a light broker, names and paths."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter_javascript
from tree_sitter import Language, Node, Parser

ROOT = Path(__file__).parents[2]
PACKAGES = ("spark_kafka_native", "broker_embedded")
LONGEST_MODULE_LINES = 450
LONGEST_COMPILED_LINES = 300
LONGEST_TEST_LINES = 600

# Modules that are longer, and how long they may be. Only ever lower these.
LONGER_MODULES: dict[str, int] = {}

_SUITES = (Path("tests/unit"), Path("tests/system"))
# One test covers all messages: tests/unit/spark_kafka_native/protocol/test_messages.py.
_TESTED_BY_THEIR_PARENT = {Path("spark_kafka_native/protocol/messages")}

_NAMED_FILE = re.compile(r"(?<![\w./*-])(?:\.\./)?\w[\w./-]*\.(?:py|md)\b")
_NAMED_MODULE = re.compile(r"\b(?:benchmarks|broker_embedded|spark_kafka_native|tests)(?:\.\w+)+")


def modules(*folders: str, kind: str = "py") -> list[Path]:
    """The files of a kind below some folders of the repository, relative to it; ``pyx`` and ``pxd`` are Cython's."""
    found = [path.relative_to(ROOT) for folder in folders for path in sorted((ROOT / folder).rglob(f"*.{kind}"))]
    assert found, f"no modules in {folders}"
    return found


def source(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_module_says_what_it_is() -> None:
    paths = [*modules(*PACKAGES, "jobs", "docs", "benchmarks", "release", "tests/support"), Path("pyspark_pykafka.py")]
    assert [str(path) for path in paths if not ast.get_docstring(ast.parse(source(path)))] == []
    compiled = [path for kind in ("pyx", "pxd", "pyi") for path in modules(*PACKAGES, kind=kind)]
    assert [str(path) for path in compiled if not source(path).startswith('"""')] == []


def test_no_module_is_too_long() -> None:
    kinds = ("py", "pyx", "pxd", "js")
    paths = [path for kind in kinds for path in modules(*PACKAGES, "tests", "benchmarks", kind=kind)]
    lengths = {path.as_posix(): len(source(path).splitlines()) for path in paths}
    too_long = {}
    for path, lines in lengths.items():
        allowed = LONGEST_TEST_LINES if path.startswith("tests/") else LONGEST_MODULE_LINES
        if path.endswith((".pyx", ".pxd")):
            allowed = LONGEST_COMPILED_LINES
        if lines > LONGER_MODULES.get(path, allowed):
            too_long[path] = lines
    assert too_long == {}
    settled = [path for path in LONGER_MODULES if lengths.get(path, 0) <= LONGEST_MODULE_LINES]
    assert settled == [], "these are short enough now, or gone: take them off LONGER_MODULES"


def test_scripts_of_the_status_page_are_javascript() -> None:
    parser = Parser(Language(tree_sitter_javascript.language()))
    assert list(_syntax_errors(parser.parse(b"f();\nf(1;").root_node)) == ["line 2: missing )"]
    scripts = [ROOT / path for path in modules("broker_embedded", kind="js")]
    errors = {path.name: list(_syntax_errors(parser.parse(path.read_bytes()).root_node)) for path in scripts}
    assert {name: found for name, found in errors.items() if found} == {}


def _syntax_errors(node: Node) -> Iterator[str]:
    """``line N: text`` of all syntax errors."""
    if node.is_error or node.is_missing:
        text = f"missing {node.type}" if node.is_missing else (node.text or b"").decode()
        yield f"line {node.start_point.row + 1}: {text}"
    elif node.has_error:
        for child in node.children:
            yield from _syntax_errors(child)


def test_every_package_has_tests() -> None:
    packages = {_folder_of_tests(path) for path in modules(*PACKAGES) if path.name != "__init__.py"}
    packages |= {_folder_of_tests(path) for path in modules(*PACKAGES, kind="pyx")}
    tested = {path.parent for suite in _SUITES for path in _tests_below(suite)}
    assert sorted(map(str, packages - tested - _TESTED_BY_THEIR_PARENT)) == []


def test_test_folders_are_named_after_packages() -> None:
    packages = {_folder_of_tests(path) for path in modules(*PACKAGES)}
    for suite in _SUITES:
        assert [str(path) for path in _tests_below(suite) if path.parent not in packages] == []


def _folder_of_tests(module: Path) -> Path:
    """The folder of a module's tests, relative to the suite: that of the module, without leading underscores."""
    top, *rest = module.parent.parts
    return Path(top, *(part.removeprefix("_") for part in rest))


def _tests_below(suite: Path) -> list[Path]:
    """The test files of both packages, relative to the suite."""
    paths = [path.relative_to(suite) for package in PACKAGES for path in modules(str(suite / package))]
    return [path for path in paths if path.name.startswith("test_")]


def test_jobs_are_thin() -> None:
    lengths = {str(path): len(source(path).splitlines()) for path in modules("jobs")}
    assert {path: lines for path, lines in lengths.items() if lines >= 20} == {}


def test_the_broker_starts_and_appends_without_the_heavy_packages() -> None:
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in modules("broker_embedded")]
    assert {"broker_embedded.__main__", "broker_embedded._log.log", "broker_embedded._server.listener"} <= set(names)
    code = (
        "import importlib, sys\n"
        f"for name in {names}: importlib.import_module(name)\n"
        "print(*sorted(sys.modules.keys() & {'numpy', 'pyarrow', 'pyspark', 'pandas'}))"
    )
    response = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert response.returncode == 0, response.stderr
    assert response.stdout.split() == [], "some module of the broker imports these"


def kept_files() -> Iterator[Path]:
    """What git keeps, or would once it is added."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    for name in filter(None, listing.stdout.split("\0")):
        if (ROOT / name).is_file():
            yield Path(name)


def test_no_file_names_somebodys_home() -> None:
    home = re.compile(rb"(?<![\w.])/(?:home|Users)/\w+|(?<![\w.])/roo[t]/|[A-Z]:\\\\?Users\b")
    found = {str(path): match.group() for path in kept_files() if (match := home.search((ROOT / path).read_bytes()))}
    assert found == {}


def texts() -> Iterator[tuple[Path, str]]:
    """The pages of the repository, and the docstrings of its tests."""
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        if path.name != "CHANGELOG.md":  # which names what a release had
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
    for path in modules("tests"):
        nodes = [node.value for node in ast.walk(ast.parse(source(path))) if isinstance(node, ast.Expr)]
        yield path, "\n".join(str(node.value) for node in nodes if isinstance(node, ast.Constant))


def names_something(name: str) -> bool:
    """Whether a dotted name is a module, a package, or something that a module has."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return set(parts[count:]) <= set(re.findall(r"\w+", file.read_text(encoding="utf-8")))
        if path.is_dir():
            return count == len(parts)
    return False


def test_pages_and_docstrings_of_tests_name_files_and_modules_that_exist() -> None:
    ends = {"/".join(path.parts[-count:]) for path in kept_files() for count in range(1, len(path.parts) + 1)}
    missing = []
    for path, text in texts():
        files, names = _NAMED_FILE.findall(text), _NAMED_MODULE.findall(text)
        missing += [f"{path}: {name}" for name in files if name.removeprefix("../") not in ends]
        missing += [f"{path}: {name}" for name in names if not names_something(name)]
    assert missing == []
