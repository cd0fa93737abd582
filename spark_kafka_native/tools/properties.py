"""Properties as options have them; those in files are read by ``broker_embedded.config.settings``."""

from collections.abc import Iterable, Mapping


def parse_pairs(items: Iterable[str], option: str) -> dict[str, str]:
    """``key=value`` pairs as options give them, one each. Raises ValueError naming the option."""
    pairs: dict[str, str] = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not separator or not key.strip():
            raise ValueError(f"{option}: {item!r} is not KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs


def with_defaults(items: Iterable[str], defaults: Mapping[str, str], option: str) -> dict[str, str]:
    """``defaults``, and the pairs of ``items`` in their place: as they are, because a separator may well be a blank.

    Raises ValueError naming a property that has no default.
    """
    given = dict(item.partition("=")[::2] for item in items)
    if unknown := sorted(given.keys() - defaults.keys()):
        raise ValueError(f"{option}: no {unknown[0]!r}; there are {', '.join(defaults)}")
    return {**defaults, **given}


def split_list(text: str) -> list[str]:
    """``a=1,b=[2,3]`` -> ``["a=1", "b=2,3"]``: commas part items, but not inside brackets, which go."""
    items: list[str] = []
    depth = 0
    item = ""
    for letter in text:
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        elif letter == "," and depth == 0:
            items.append(item)
            item = ""
        else:
            item += letter
    return [part.strip() for part in [*items, item] if part.strip()]
