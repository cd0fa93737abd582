"""What foreign servers have in common: that they may not start."""


class DidNotStart(Exception):
    """A server that is not ours ended while it started, or was not ready in time; the message has what it printed.

    The only failure of an interop test that is tried again: two cores start several JVMs at once.
    """
