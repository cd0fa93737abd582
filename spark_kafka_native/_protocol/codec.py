"""Codecs of messages, compiled once per (class, version) from the declarations in ``schema``.

A codec is Python source, generated and executed once: neighbouring fixed-size fields become one ``struct`` call, and no
decision about versions is left for run time. Encoding refuses a value that the version cannot carry, unless the field
is ``ignorable``; decoding gives absent fields their defaults.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar, cast

from spark_kafka_native._protocol import wire
from spark_kafka_native._protocol.errors import LocalProtocolError, RemoteProtocolError
from spark_kafka_native._protocol.schema import FieldSpec, Message, Struct, fields_of, setters_of
from spark_kafka_native._protocol.wire import Buffer, Chunk, Splices

Decoder = Callable[[memoryview, int], tuple[Any, int]]
Encoder = Callable[[Any, bytearray, Splices], None]

_FEW = range(8)
_UNPACK_FEW = {
    code: (None, *(struct.Struct(f">{count}{code}").unpack_from for count in _FEW))
    for code in wire.FIXED_FORMATS.values()
}
"""What unpacks a few numbers, by ``struct`` code and by their count as compact arrays store it: plus one."""
_PACK_FEW = {
    code: tuple(struct.Struct(f">B{count}{code}").pack for count in _FEW) for code in wire.FIXED_FORMATS.values()
}
"""What packs the stored count and a few numbers, by ``struct`` code and count."""
# Dictionaries, because mypy does not check the arguments of a function with functools.cache.
_ENCODERS: dict[tuple[type[Struct], int, bool], Encoder] = {}
_DECODERS: dict[tuple[type[Struct], int, bool], Decoder] = {}


def encoder(cls: type[Struct], version: int, flexible: bool) -> Encoder:
    """The compiled encoder of one struct in one version."""
    key = (cls, version, flexible)
    found = _ENCODERS.get(key)
    if found is None:
        found = _ENCODERS[key] = _EncoderSource(cls, version, flexible).compile()
    return found


def decoder(cls: type[Struct], version: int, flexible: bool) -> Decoder:
    """The compiled decoder of one struct in one version."""
    key = (cls, version, flexible)
    found = _DECODERS.get(key)
    if found is None:
        found = _DECODERS[key] = _DecoderSource(cls, version, flexible).compile()
    return found


class _Source:
    """Lines of a generated function, with the objects that they refer to."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls, self.version, self.flexible = cls, version, flexible
        self.compact = "compact_" if flexible else ""
        self.lines: list[str] = []
        self.indent = 1
        self.names: dict[str, Any] = {"wire": wire, "cls": cls}
        self.fixed: list[FieldSpec] = []

    def put(self, *lines: str) -> None:
        self.lines += ["    " * self.indent + line for line in lines]

    def bind(self, prefix: str, value: object) -> str:
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def wire(self, function: str) -> str:
        self.names[function] = getattr(wire, function)
        return function

    def finish(self, signature: str) -> Any:
        source = "\n".join([signature, *self.lines])
        name = f"<codec {self.cls.__name__} v{self.version}>"
        exec(compile(source, name, "exec"), self.names)  # noqa: S102  # our own text, made from our own declarations
        return self.names["run"]

    def split_fields(self) -> tuple[list[FieldSpec], list[FieldSpec], list[FieldSpec]]:
        """Fields in wire order, tagged fields by tag, and fields that this version lacks."""
        plain: list[FieldSpec] = []
        tagged: list[FieldSpec] = []
        absent: list[FieldSpec] = []
        for spec in fields_of(self.cls):
            if self.version not in spec.versions:
                absent.append(spec)
            elif spec.tag is not None:
                (tagged if self.flexible else absent).append(spec)
            else:
                plain.append(spec)
        return plain, sorted(tagged, key=lambda spec: spec.tag or 0), absent

    def is_nullable(self, spec: FieldSpec) -> bool:
        return self.version in spec.nullable


def _is_fixed(spec: FieldSpec) -> bool:
    return not spec.is_array and spec.primitive in wire.FIXED_FORMATS


class _DecoderSource(_Source):
    """``run(b, p) -> (message, position after it)``.

    Counts of one byte, arrays of a few numbers and the absence of tags are read in place, because nearly all are so;
    whatever else stands there, damage included, is left to ``wire``.
    """

    def compile(self) -> Decoder:
        plain, tagged, absent = self.split_fields()
        if self.flexible:
            self.put("end = len(b)")
        for spec in plain:
            if _is_fixed(spec):
                self.fixed.append(spec)
            else:
                self.flush()
                self.value(spec)
        self.flush()
        if self.flexible:
            self.tags(tagged)
        self.names["new"] = object.__new__
        self.put("m = new(cls)")
        setters = setters_of(self.cls)
        for spec in plain + tagged:
            self.put(f"{self.bind('set', setters[spec.name])}(m, v_{spec.name})")
        for spec in absent:
            self.put(f"{self.bind('set', setters[spec.name])}(m, {self.bind('default', spec.default)})")
        self.put("return m, p")
        return cast("Decoder", self.finish("def run(b, p):"))

    def flush(self) -> None:
        if not self.fixed:
            return
        layout = struct.Struct(">" + "".join(wire.FIXED_FORMATS[spec.primitive or ""] for spec in self.fixed))
        targets = "".join(f"v_{spec.name}, " for spec in self.fixed)
        self.put(f"{targets}= {self.bind('unpack', layout.unpack_from)}(b, p)", f"p += {layout.size}")
        self.fixed = []

    def value(self, spec: FieldSpec) -> None:
        target = f"v_{spec.name}"
        if spec.is_array:
            self.array(spec, target)
        elif spec.struct is not None and self.is_nullable(spec):
            presence = "read_presence" if spec.tag is None else "read_tagged_presence"
            self.put(f"{target}, p = {self.wire(presence)}(b, p)")
            self.put(f"if {target}: {target}, p = {self.reader(spec)}(b, p)", f"else: {target} = None")
        else:
            self.put(f"{target}, p = {self.reader(spec)}(b, p)")

    def reader(self, spec: FieldSpec) -> str:
        """The name of the function that reads one value (for arrays: one element)."""
        if spec.struct is not None:
            return self.bind("read", decoder(spec.struct, self.version, self.flexible))
        if spec.primitive == "uuid":
            return self.wire("read_uuid")
        nullable = "nullable_" if self.is_nullable(spec) and not spec.is_array else ""
        return self.wire(f"read_{self.compact}{nullable}{spec.primitive}")

    def array(self, spec: FieldSpec, target: str) -> None:
        nullable = "nullable_" if self.is_nullable(spec) else ""
        count = f"n, p = {self.wire(f'read_{self.compact}{nullable}count')}(b, p)"
        code = wire.FIXED_FORMATS.get(spec.primitive or "")
        outer = self.indent
        if self.flexible and code:
            size = struct.calcsize(">" + code)
            few = self.bind("few", _UNPACK_FEW[code])
            self.put(f"if p < end and 0 < (n := b[p]) <= {len(_FEW)}:")
            self.put(f"    {target} = {few}[n](b, p + 1)", f"    p += n * {size} - {size - 1}", "else:")
            self.indent += 1
            self.put(count)
        elif self.flexible:
            least = 0 if nullable else 1
            self.put(f"if p < end and {least} <= (n := b[p]) < 0x80: n, p = n - 1, p + 1", f"else: {count}")
        else:
            self.put(count)
        if nullable:
            self.put(f"if n < 0: {target} = None", "else:")
            self.indent += 1
        if code:
            self.names["unpack_many"] = struct.unpack_from
            self.put(f"{target} = unpack_many('>%d{code}' % n, b, p)", f"p += n * {struct.calcsize('>' + code)}")
        else:
            self.put("items = []", "add = items.append", f"read = {self.reader(spec)}", "for _ in range(n):")
            self.put("    item, p = read(b, p)", "    add(item)", f"{target} = tuple(items)")
        self.indent = outer

    def tags(self, tagged: list[FieldSpec]) -> None:
        for spec in tagged:
            self.put(f"v_{spec.name} = {self.bind('default', spec.default)}")
        self.put("if p < end and not b[p]: p += 1", "else:")
        self.indent += 1
        self.put(f"tags, p = {self.wire('read_tag_count')}(b, p)", "last_tag = -1", "for _ in range(tags):")
        self.indent += 1
        self.names["bad"] = _bad_tag
        self.put(
            f"tag, p, tag_end = {self.wire('read_tag')}(b, p)", "if tag <= last_tag: bad(cls, tag)", "last_tag = tag"
        )
        branch = "if"
        for spec in tagged:
            self.put(f"{branch} tag == {spec.tag}:")
            self.indent += 1
            if _is_fixed(spec):
                self.fixed = [spec]
                self.flush()
            else:
                self.value(spec)
            self.put("if p != tag_end: bad(cls, tag)")
            self.indent -= 1
            branch = "elif"
        self.put("p = tag_end")
        self.indent -= 2


def _bad_tag(cls: type[Struct], tag: int) -> None:
    raise RemoteProtocolError(
        f"{cls.__name__}: tagged field {tag} is out of order or has a size that is not its value's"
    )


class _EncoderSource(_Source):
    """``run(m, b, s)``: append message ``m`` to ``b``, large records to the splices ``s``.

    A few numbers are packed together with their count.
    """

    def compile(self) -> Encoder:
        plain, tagged, absent = self.split_fields()
        self.names["refuse"] = _refuse
        for spec in absent:
            if not spec.ignorable:
                differs = self.differs(spec)
                self.put(f"if {differs}: refuse(cls, {spec.name!r}, {self.version}, m.{spec.name})")
        for spec in plain:
            if _is_fixed(spec):
                self.fixed.append(spec)
            else:
                self.flush()
                self.value(spec, f"m.{spec.name}")
        self.flush()
        if self.flexible:
            self.tags(tagged)
        if not self.lines:
            self.put("pass")
        return cast("Encoder", self.finish("def run(m, b, s):"))

    def differs(self, spec: FieldSpec) -> str:
        """Whether a field has another value than its default, which mostly is the very same object."""
        value, default = f"m.{spec.name}", self.bind("default", spec.default)
        return f"{value} is not {default} and {value} != {default}"

    def flush(self) -> None:
        if not self.fixed:
            return
        layout = struct.Struct(">" + "".join(wire.FIXED_FORMATS[spec.primitive or ""] for spec in self.fixed))
        values = ", ".join(f"m.{spec.name}" for spec in self.fixed)
        self.put(f"b += {self.bind('pack', layout.pack)}({values})")
        self.fixed = []

    def value(self, spec: FieldSpec, source: str) -> None:
        nullable = self.is_nullable(spec)
        if not nullable:
            self.put(f"if {source} is None: refuse(cls, {spec.name!r}, {self.version}, None)")
        if spec.is_array:
            self.array(spec, source, nullable)
        elif spec.struct is not None and nullable:
            absent = 255 if spec.tag is None else 0
            self.put(f"if {source} is None: b.append({absent})", "else:", "    b.append(1)")
            self.put(f"    {self.writer(spec)}({source}, b, s)")
        elif spec.struct is not None:
            self.put(f"{self.writer(spec)}({source}, b, s)")
        else:
            self.put(self.primitive(spec, source))

    def writer(self, spec: FieldSpec) -> str:
        assert spec.struct is not None
        return self.bind("write", encoder(spec.struct, self.version, self.flexible))

    def primitive(self, spec: FieldSpec, source: str) -> str:
        if spec.primitive == "uuid":
            return f"b += {source}.bytes"
        if spec.primitive == "records":
            return f"{self.wire(f'put_{self.compact}records')}(b, s, {source})"
        return f"{self.wire(f'put_{self.compact}{spec.primitive}')}(b, {source})"

    def array(self, spec: FieldSpec, source: str, nullable: bool) -> None:
        count = self.wire(f"put_{self.compact}count")
        outer = self.indent
        if nullable:
            self.put(f"if {source} is None: {count}(b, -1)", "else:")
            self.indent += 1
        code = wire.FIXED_FORMATS.get(spec.primitive or "")
        if self.flexible and code:
            few = self.bind("few", _PACK_FEW[code])
            self.put(f"n = len({source})", f"if n < {len(_FEW)}: b += {few}[n](n + 1, *{source})", "else:")
            self.indent += 1
        self.put(f"{count}(b, len({source}))")
        if code:
            self.names["pack_many"] = struct.pack
            self.put(f"b += pack_many('>%d{code}' % len({source}), *{source})")
        elif spec.struct is not None:
            self.put(f"write = {self.writer(spec)}", f"for item in {source}: write(item, b, s)")
        else:
            self.put(f"for item in {source}: {self.primitive(spec, 'item')}")
        self.indent = outer

    def tags(self, tagged: list[FieldSpec]) -> None:
        if not tagged:
            self.put("b.append(0)")
            return
        self.put("whole, tags = b, []")
        for spec in tagged:
            self.put(f"if {self.differs(spec)}:")
            self.indent += 1
            self.put("b = bytearray()")
            if _is_fixed(spec):
                self.fixed = [spec]
                self.flush()
            else:
                self.value(spec, f"m.{spec.name}")
            self.put(f"tags.append(({spec.tag}, b))")
            self.indent -= 1
        varint = self.wire("put_unsigned_varint")
        self.put("b = whole", f"{varint}(b, len(tags))", "for tag, value in tags:")
        self.put(f"    {varint}(b, tag)", f"    {varint}(b, len(value))", "    b += value")


def _refuse(cls: type[Struct], name: str, version: int, value: object) -> None:
    raise LocalProtocolError(f"{cls.__name__}.{name} = {value!r:.60} cannot be sent in version {version}")


# --- whole messages --------------------------------------------------------------------------------------------------

MessageT = TypeVar("MessageT", bound=Message)


def skip_tags(buffer: memoryview, position: int) -> int:
    """The position after a tagged-field section that is skipped."""
    count, position = wire.read_tag_count(buffer, position)
    for _ in range(count):
        _, _, position = wire.read_tag(buffer, position)
    return position


def _is_flexible(cls: type[Message], version: int) -> bool:
    """Whether a version has tagged fields. Raises LocalProtocolError: the version is unknown to us."""
    if version not in cls.versions:
        raise LocalProtocolError(f"{cls.__name__} has versions {cls.versions}, not {version}")
    return version in cls.flexible


def encode_into(out: bytearray, splices: Splices, value: Message, version: int) -> None:
    """Append a message to ``out``; large records go to ``splices`` by reference.

    Raises LocalProtocolError: the version is unknown to us or cannot carry the values. ``out`` may then hold a part.
    """
    cls = type(value)
    write = encoder(cls, version, _is_flexible(cls, version))
    try:
        write(value, out, splices)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise LocalProtocolError(
            f"{cls.__name__} v{version} has a value that its field cannot hold: {error}"
        ) from error


def encode(value: Message, version: int) -> list[Chunk]:
    """A message's bytes in wire order, large records by reference. Raises LocalProtocolError."""
    out, splices = bytearray(), Splices()
    encode_into(out, splices, value, version)
    return wire.chunks_of(out, splices)


def decode_from(cls: type[MessageT], buffer: memoryview, position: int, version: int) -> tuple[MessageT, int]:
    """A message and the position after it. Raises RemoteProtocolError: short or malformed bytes."""
    read = decoder(cls, version, _is_flexible(cls, version))
    try:
        return read(buffer, position)
    except struct.error as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version} is cut short: {error}") from None
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{cls.__name__} v{version}: {error}") from None


def decode(cls: type[MessageT], buffer: Buffer, version: int) -> MessageT:
    """A message out of exactly its bytes; records are views into ``buffer``.

    Raises RemoteProtocolError: short, malformed or trailing bytes.
    """
    view = memoryview(buffer)
    value, end = decode_from(cls, view, 0, version)
    if end != len(view):
        raise RemoteProtocolError(f"{cls.__name__} v{version}: {len(view) - end} bytes after the message")
    return value
