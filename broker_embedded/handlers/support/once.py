"""An entry that a request repeats is answered once.

A response is therefore bounded by a multiple of its request plus the size of the resources that it describes. Apache
Kafka answers each repetition of most of these entries; its clients send none.
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    EntryT = TypeVar("EntryT", bound=DataclassInstance)
else:
    EntryT = TypeVar("EntryT")


def once(entries: Iterable[EntryT], key: Callable[[EntryT], Hashable], *, joined: str) -> tuple[EntryT, ...]:
    """Merge the entries with equal keys, in the order in which the keys occur first.

    The field ``joined`` of a merged entry has the distinct items of all its entries. It is None, which requests
    everything, if it is None in one of them.
    """
    lists: dict[Hashable, dict[Any, None] | None] = {}
    first: dict[Hashable, EntryT] = {}
    for entry in entries:
        name = key(entry)
        first.setdefault(name, entry)
        items, known = getattr(entry, joined), lists.setdefault(name, {})
        if items is None or known is None:
            lists[name] = None
        else:
            known.update(dict.fromkeys(items))
    return tuple(
        dataclasses.replace(entry, **{joined: None if (items := lists[name]) is None else tuple(items)})
        for name, entry in first.items()
    )
