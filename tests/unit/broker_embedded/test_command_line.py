"""Options that a command line does not know, with the nearest one that it does."""

import pytest

from broker_embedded.command_line import SuggestingParser


def parser() -> SuggestingParser:
    made = SuggestingParser(prog="p", allow_abbrev=False)
    made.add_argument("--listen")
    made.add_argument("--data-dir")
    return made


def test_known_options_are_parsed() -> None:
    assert parser().parse_args(["--listen", "a:1"]).listen == "a:1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lisen", "a:1"], "unrecognized arguments: --lisen a:1; did you mean --listen?"),
        (["--listen", "a:1", "--data-dri=/x"], "unrecognized arguments: --data-dri=/x; did you mean --data-dir?"),
        (["--what"], "unrecognized arguments: --what"),
        (["what"], "unrecognized arguments: what"),
    ],
)
def test_nearest_option_is_suggested(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"p: error: {said}"
