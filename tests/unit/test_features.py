"""docs/connector.md is what the features and the tests' marks make, and each feature is shown by a test."""

from pathlib import Path
from textwrap import dedent

import pytest

from docs.features import PAGE, REPOSITORY, connector_page
from tests.support.feature_marks import Kind, Marked, NotLiteral, marked_tests
from tests.support.features import FEATURES, SECTIONS


@pytest.fixture(scope="module")
def marks() -> list[Marked]:
    return marked_tests(REPOSITORY)


def test_ids_are_unique() -> None:
    assert len(FEATURES) == sum(len(section.features) for section in SECTIONS)


def test_the_committed_page_is_what_features_and_tests_say(marks: list[Marked]) -> None:
    assert PAGE.read_text(encoding="utf-8") == connector_page(marks), "features or tests changed: run `make docs`"


def test_every_mark_names_a_feature(marks: list[Marked]) -> None:
    assert [mark for mark in marks if mark.feature not in FEATURES] == []


def test_every_feature_is_shown_by_a_test(marks: list[Marked]) -> None:
    assert sorted(FEATURES.keys() - {mark.feature for mark in marks}) == []


def test_what_the_api_forbids_stands_on_the_page_with_what_to_do_instead() -> None:
    forbidden = {row.id for row in FEATURES.values() if row.api}
    assert {"sink.update", "sink.saveModes", "run.metrics", "rate.continuous", "run.name"} <= forbidden
    page = connector_page([])
    assert all(f"- **{FEATURES[id_].feature}**: {FEATURES[id_].api}." in page for id_ in forbidden)


# --- reading marks ---------------------------------------------------------------------------------------------------

CONFTEST = """
    @pytest.fixture
    def bundled_broker(): ...

    @pytest.fixture
    def any_server(request):
        return request.getfixturevalue("bundled_broker" if request.param else "apache_kafka")
"""


def read(tmp_path: Path, source: str, directory: str = "tests/area") -> list[tuple[str, str, tuple[str, ...]]]:
    (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "tests/conftest.py").write_text(dedent(CONFTEST))
    (tmp_path / directory / "test_it.py").write_text(dedent(source))
    return [(mark.test, mark.feature, mark.kinds) for mark in marked_tests(tmp_path)]


def test_a_test_without_servers_is_a_unit_test(tmp_path: Path) -> None:
    source = """
        @pytest.mark.feature("a", "b")
        def test_one(tmp_path): ...

        def test_other(): ...
    """
    assert read(tmp_path, source) == [("test_one", "a", ("unit",)), ("test_one", "b", ("unit",))]


def test_fixtures_and_helpers_tell_what_a_test_runs_on(tmp_path: Path) -> None:
    source = """
        @pytest.fixture
        def topic(any_server): ...

        def started():
            return ApacheKafka()

        @pytest.mark.feature("both")
        def test_both(topic): ...

        @pytest.mark.feature("apache")
        def test_apache():
            started()

        @pytest.mark.feature("bundled")
        @pytest.mark.usefixtures("bundled_broker")
        def test_bundled(): ...
    """
    assert read(tmp_path, source) == [
        ("test_apache", "apache", ("Apache Kafka",)),
        ("test_both", "both", ("bundled broker", "Apache Kafka")),
        ("test_bundled", "bundled", ("bundled broker",)),
    ]


def test_marks_stand_on_modules_classes_and_parameters_too(tmp_path: Path) -> None:
    source = """
        pytestmark = [pytest.mark.spark, pytest.mark.feature("module")]

        @pytest.mark.feature("class")
        class TestIt:
            @pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.feature("parameter"))])
            def test_it(self, x): ...
    """
    assert {feature for _, feature, _ in read(tmp_path, source)} == {"module", "class", "parameter"}


def test_a_test_beside_the_jvm_connector_is_known_by_its_place(tmp_path: Path) -> None:
    source = '@pytest.mark.feature("a")\ndef test_it(apache_kafka): ...\n'
    found = read(tmp_path, source, "tests/interop/jvm_connector")
    assert found == [("test_it", "a", (Kind.BESIDE.value,))]


def test_an_id_that_is_not_written_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotLiteral, match=r"test_it\.py:2: "):
        read(tmp_path, "\n@pytest.mark.feature(ID)\ndef test_it(): ...\n")
