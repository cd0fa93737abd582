"""Parts of pages that are made: what stands between two marks, which are lines of their own."""


def replace_between(text: str, begin: str, end: str, block: str) -> str:
    """``text`` with ``block``, whole lines, in place of what stands between the marks.

    Raises ValueError: they are not there.
    """
    before, found, rest = text.partition(f"{begin}\n")
    _, also, after = rest.partition(f"{end}\n")
    if not found or not also:
        raise ValueError(f"the page has no lines {begin} and {end}")
    return f"{before}{begin}\n{block}{end}\n{after}"
