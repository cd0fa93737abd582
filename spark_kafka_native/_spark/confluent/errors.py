"""Errors of schemas, of the registry and of values."""


class SchemaError(ValueError):
    """An Avro schema that cannot be read, or that has no Spark type."""


class RegistryError(RuntimeError):
    """The registry is unavailable or refuses the request."""


class NoSuchSchema(ValueError):
    """The registry does not have this schema, or it is not an Avro schema."""


class BadRow(ValueError):
    """A value that cannot be decoded, with ``on_bad="fail"``. Raised in tasks."""


class EncodeError(ValueError):
    """A row that does not fit the schema. Raised in tasks."""
