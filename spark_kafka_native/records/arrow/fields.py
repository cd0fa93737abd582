"""The fields of records, a column each, read from bodies that the walk has found (grammar: ``record``)."""

from dataclasses import dataclass

import numpy as np

from spark_kafka_native.records.arrow.varint import I64, U8, read_varints, require
from spark_kafka_native.records.arrow.walk import Bodies
from spark_kafka_native.records.record import VARLONG_BYTES

_MIN_HEADER_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """One int64[n] each; starts and ends are positions in the data, a length of -1 is null."""

    timestamp_deltas: I64
    offset_deltas: I64
    key_starts: I64
    key_lengths: I64
    value_starts: I64
    value_lengths: I64
    headers_counts: I64
    headers_starts: I64
    ends: I64

    def rows(self, first: int, end: int) -> "Fields":
        """The fields of records ``first`` to ``end``, views of these."""
        if first == 0 and end == len(self.ends):
            return self
        return Fields(**{name: getattr(self, name)[first:end] for name in self.__slots__})


def read_fields(data: U8, bodies: Bodies) -> Fields:
    """Every field up to the headers' count, checked to fit the record; what headers hold is not looked at.

    Raises BadRecord: a varint or a length that is impossible, fields that do not end with the record.
    """
    timestamp_deltas, position = read_varints(data, bodies.starts + 1, VARLONG_BYTES)
    offset_deltas, position = read_varints(data, position)
    key_lengths, key_starts = read_varints(data, position)
    value_lengths, value_starts = read_varints(data, _behind(key_starts, key_lengths, "key"))
    headers_counts, headers_starts = read_varints(data, _behind(value_starts, value_lengths, "value"))
    # Positions only ever grew, so that one look at the last of them covers all.
    if not headers_counts.any():
        require(headers_starts == bodies.ends, "its fields do not end where it ends")
    else:
        require(headers_counts >= 0, "a negative number of headers")
        left = bodies.ends - headers_starts
        require(
            (left >= headers_counts * _MIN_HEADER_BYTES) & ((headers_counts > 0) | (left == 0)),
            "its fields do not end where it ends",
        )
    return Fields(
        timestamp_deltas=timestamp_deltas,
        offset_deltas=offset_deltas,
        key_starts=key_starts,
        key_lengths=key_lengths,
        value_starts=value_starts,
        value_lengths=value_lengths,
        headers_counts=headers_counts,
        headers_starts=headers_starts,
        ends=bodies.ends,
    )


def _behind(starts: I64, lengths: I64, what: str) -> I64:
    """Positions behind spans, the null ones being empty."""
    if lengths.min() >= 0:
        return starts + lengths
    require(lengths >= -1, f"its {what} has an impossible length")
    return starts + np.maximum(lengths, 0)
