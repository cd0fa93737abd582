from tests.long.coverage import Measured, below, by_package, modules
from tests.support.report import printed


def summary(statements: int, missed: int, branches: int, not_taken: int) -> dict[str, dict[str, int]]:
    counts = {
        "num_statements": statements,
        "missing_lines": missed,
        "num_branches": branches,
        "missing_branches": not_taken,
    }
    return {"summary": counts}


FOUND = {
    "files": {
        "package/log/segment.py": summary(90, 8, 20, 4),
        "package/log/index.py": summary(9, 0, 1, 1),
        "package/log/__init__.py": summary(0, 0, 0, 0),
        "package/broker.py": summary(100, 0, 10, 0),
    }
}


def test_a_package_is_the_sum_of_its_modules() -> None:
    head, _, *rows = printed(by_package(modules(FOUND)))
    assert head == "| package | statements | not executed | branches | not taken | per cent |"
    assert rows == [
        "| package | 100 | 0 | 10 | 0 | 100.0 |",
        "| package/log | 99 | 8 | 21 | 5 | 89.2 |",
        "| all | 199 | 8 | 31 | 5 | 94.3 |",
    ]


def test_modules_below_the_limit_are_listed() -> None:
    _, _, *rows = printed(below(modules(FOUND)))
    assert rows == ["| package/log/segment.py | 90 | 8 | 20 | 4 | 89.1 |"]  # 90.0 is enough


def test_a_module_without_statements_is_measured_whole() -> None:
    assert Measured().percent == 100.0
