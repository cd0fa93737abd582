"""Coordinators as state machines: a request yields an answer and records; replaying the records yields the state."""
