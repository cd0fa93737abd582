"""The header of Confluent's wire format, which names the schema of a value.

======  ==========================================  =====================================================
Magic   Content                                     Position
======  ==========================================  =====================================================
0       the schema's id, 4 bytes, big-endian        before the data
1       the schema's GUID, 16 bytes                 before the data, or in the record's header
                                                    ``__value_schema_id`` or ``__key_schema_id``
======  ==========================================  =====================================================
"""

import struct
from typing import Final
from uuid import UUID

ID_MAGIC: Final = b"\x00"
GUID_MAGIC: Final = b"\x01"
ID_HEADER_BYTES: Final = 5
GUID_HEADER_BYTES: Final = 17
MAX_SCHEMA_ID: Final = 2**31 - 1

SchemaRef = int | UUID
"""The id or GUID of a schema in a header."""


def build_header(ref: SchemaRef) -> bytes:
    """The header that names a schema."""
    return GUID_MAGIC + ref.bytes if isinstance(ref, UUID) else ID_MAGIC + struct.pack(">I", ref)


def header_size(value: bytes) -> int:
    """The size of the header of a value; 0 if there is none."""
    for magic, size in ((ID_MAGIC, ID_HEADER_BYTES), (GUID_MAGIC, GUID_HEADER_BYTES)):
        if value.startswith(magic) and len(value) >= size:
            return size
    return 0
