"""Groups as state machines: a request gives a response and records, and replaying the records gives the state."""
