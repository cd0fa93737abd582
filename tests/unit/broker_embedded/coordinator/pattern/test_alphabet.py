"""Which characters an expression tells apart."""

import pytest

from broker_embedded.coordinator.pattern.alphabet import Alphabet


def has(members: int, alphabet: Alphabet, characters: str) -> list[bool]:
    return [bool(members >> alphabet.number(ord(character)) & 1) for character in characters]


def test_ascii_characters_have_their_own_numbers() -> None:
    assert [Alphabet("é").number(code) for code in range(128)] == list(range(128))


@pytest.mark.parametrize("expression", ["é😀", r"\x{e9}|\x{1F600}", r"\x{00e9}\x{001f600}"])
def test_what_is_named_has_a_number_of_its_own_and_the_rest_share_some(expression: str) -> None:
    alphabet = Alphabet(expression)
    numbers = [alphabet.number(ord(character)) for character in "éя😀ѐ😁"]
    assert len(set(numbers)) == 4
    assert numbers[1] == numbers[3]
    assert max(numbers) < 1000
    assert alphabet.number(0x10FFFF) == numbers[4]


def test_ranges() -> None:
    alphabet = Alphabet("[b-я]")
    assert has(alphabet.of_range(ord("b"), ord("я"), fold=False), alphabet, "abzéяѐ😀") == [
        *(False, True, True, True, True),
        *(False, False),
    ]
    last = Alphabet(r"[\x{80}-\x{10FFFF}]")
    assert has(last.of_range(0x80, 0x10FFFF, fold=False), last, "aé\x80\U0010ffff") == [False, True, True, True]


def test_other_cases() -> None:
    alphabet = Alphabet("Ök")
    assert has(alphabet.of_range(ord("Ö"), ord("Ö"), fold=True), alphabet, "Ööo") == [True, True, False]
    assert has(alphabet.of_range(ord("Ö"), ord("Ö"), fold=False), alphabet, "Öö") == [True, False]
    assert has(alphabet.of_range(ord("k"), ord("s"), fold=True), alphabet, "kKsS\u212a\u017fé") == [
        *(True, True, True, True),
        *(True, True, False),
    ]
    assert has(alphabet.of_range(0x212A, 0x212A, fold=True), alphabet, "kK\u212aj") == [True, True, True, False]


def test_what_is_no_character_is_read_over() -> None:
    assert Alphabet(r"\x{110000}\x{ffffffff}").number(0x10FFFF) == Alphabet("").number(0x10FFFF)
