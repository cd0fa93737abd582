"""Errors of the record clients that are not about a broker."""


class SerializationError(ValueError):
    """A serializer failed, or did not return bytes or None. Its record was not sent."""


class QueueFull(RuntimeError):
    """The queue of records to send was full for ``queue.enqueue.timeout.ms``. The record was not taken."""


class ClientClosed(RuntimeError):
    """The client was closed: by ``close``, by an error that concerns all its requests, or by the end of its process."""
