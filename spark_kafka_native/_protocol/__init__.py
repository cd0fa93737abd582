"""Bytes on the wire: primitives, messages of every version, frames and error codes. Pure; shared with the broker."""
