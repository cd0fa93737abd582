from pathlib import Path
from textwrap import dedent

import pytest

from docs.features import PAGE, REPOSITORY, connector_page, passed_by_hand
from tests.support.features.junit import Case, Outcome
from tests.support.features.marks import Kind, Marked, marked_tests, read_record, update_record
from tests.support.features.table import FEATURES, SECTIONS


@pytest.fixture(scope="module")
def marks() -> list[Marked]:
    return marked_tests(REPOSITORY)


def test_feature_ids_are_unique() -> None:
    assert len(FEATURES) == sum(len(section.features) for section in SECTIONS)


def test_the_committed_page_is_up_to_date(marks: list[Marked]) -> None:
    assert PAGE.read_text(encoding="utf-8") == connector_page(marks, passed_by_hand()), "run `make docs`"


def test_every_mark_names_a_feature(marks: list[Marked]) -> None:
    assert [(mark.name, id_) for mark in marks for id_ in mark.features if id_ not in FEATURES] == []


def test_every_feature_has_a_case_of_a_test(marks: list[Marked]) -> None:
    assert sorted(FEATURES.keys() - {id_ for mark in marks for id_ in mark.features}) == []


def test_the_page_says_what_to_do_where_spark_has_no_api() -> None:
    forbidden = {row.id for row in FEATURES.values() if row.api}
    assert forbidden >= {"sink.update", "sink.saveModes", "run.metrics", "rate.continuous", "run.name"}
    page = connector_page([], ())
    for id_ in forbidden:
        assert f"- **{FEATURES[id_].feature}**: {FEATURES[id_].api}." in page


# --- marks -----------------------------------------------------------------------------------------------------------

BROKERS = """
    class BrokerProcess: ...

    class ApacheKafka: ...

    class BothConnectors: ...

    class Cluster:
        def start(self):
            return ApacheKafka()
"""
CONFTEST = """
    import pytest

    from tests.brokers import BothConnectors, BrokerProcess

    @pytest.fixture
    def bundled_broker():
        return BrokerProcess()

    @pytest.fixture
    def both():
        return BothConnectors()

    @pytest.fixture(params=["bundled", pytest.param("apache", marks=pytest.mark.interop)])
    def any_broker(request): ...
"""
TESTS = """
    import pytest

    from tests.brokers import ApacheKafka, Cluster

    pytestmark = pytest.mark.feature("module")

    @pytest.fixture
    def topic(any_broker): ...

    def started():
        return Cluster().start()

    def test_any(topic): ...

    def test_apache():
        started()

    @pytest.mark.usefixtures("bundled_broker")
    def test_bundled(): ...

    def test_type_only(directory: ApacheKafka = None): ...

    @pytest.mark.feature("class")
    class TestIt:
        @pytest.mark.parametrize("case", ["x", pytest.param("y", marks=pytest.mark.feature("case"))])
        def test_it(self, case): ...
"""
BESIDE = """
    import pytest

    @pytest.mark.feature("a")
    def test_both_connectors(both): ...

    @pytest.mark.feature("a")
    def test_no_server(): ...

    def test_not_marked(both): ...
"""


def test_kinds_follow_from_the_servers_that_a_test_starts(tmp_path: Path) -> None:
    beside = tmp_path / "tests/interop/jvm_connector"
    beside.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\n"
        'addopts = ["--import-mode=importlib"]\npythonpath = ["."]\n'
        'markers = ["interop", "feature"]\n'
    )
    files = {"brokers.py": BROKERS, "conftest.py": CONFTEST, "test_it.py": TESTS}
    for name, text in {**files, "interop/jvm_connector/test_beside.py": BESIDE}.items():
        (tmp_path / "tests" / name).write_text(dedent(text))
    found = [(mark.test, mark.features, mark.kinds, mark.by_hand) for mark in marked_tests(tmp_path)]
    assert found == [
        ("test_both_connectors", ("a",), (Kind.BESIDE,), True),
        ("test_no_server", ("a",), (Kind.NO_BROKER,), True),
        ("test_any[apache]", ("module",), (Kind.APACHE,), True),
        ("test_any[bundled]", ("module",), (Kind.BUNDLED,), False),
        ("test_apache", ("module",), (Kind.APACHE,), False),
        ("test_bundled", ("module",), (Kind.BUNDLED,), False),
        ("test_it[x]", ("class", "module"), (Kind.NO_BROKER,), False),
        ("test_it[y]", ("case", "class", "module"), (Kind.NO_BROKER,), False),
        ("test_type_only", ("module",), (Kind.NO_BROKER,), False),
    ]


def test_tests_that_cannot_be_collected_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text("import pytest\n\nprint(pytest.mark.feature(NAME))\n")
    with pytest.raises(RuntimeError, match="name 'NAME' is not defined"):
        marked_tests(tmp_path)


# --- runs ------------------------------------------------------------------------------------------------------------


def marked(test: str, *, by_hand: bool) -> Marked:
    return Marked("tests/test_it.py", test, ("security.gssapi",), (Kind.APACHE,), by_hand)


@pytest.mark.parametrize(
    ("by_hand", "passed", "shown"), [(False, (), True), (True, (), False), (True, ("test_one",), True)]
)
def test_a_feature_is_tested_only_if_its_test_has_run(by_hand: bool, passed: tuple[str, ...], shown: bool) -> None:
    tests = [marked("test_one", by_hand=by_hand), marked("test_two", by_hand=True)]
    page = connector_page(tests, [f"tests/test_it.py::{test}" for test in passed])
    row = next(line for line in page.splitlines() if line.startswith("| SASL GSSAPI"))
    assert row.endswith("| [Apache Kafka](../tests/test_it.py) |" if shown else "| not tested |")


def case(name: str, outcome: Outcome, *, file: str = "tests/a.py", features: str = "x") -> Case:
    return Case(file=file, name=name, outcome=outcome, seconds=0, features=features)


def test_the_record_has_the_marked_tests_that_passed_when_they_last_ran(tmp_path: Path) -> None:
    path = tmp_path / "features.txt"
    passed, skipped, failed = Outcome.PASSED, Outcome.SKIPPED, Outcome.FAILED
    update_record([case("test_1[a b]", passed), case("test_2", passed), case("test_3", passed)], "c1", path=path)
    later = [case("test_2", skipped), case("test_3", failed), case("test_4", passed)]
    others = [case("test_5", passed, features=""), case("test_6", passed, file="tests/a.py, on Apache Kafka")]
    update_record([*later, *others], "c2", path=path)
    assert read_record(path) == {"tests/a.py::test_1[a b]": "c1", "tests/a.py::test_4": "c2"}
