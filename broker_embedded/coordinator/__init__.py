"""Coordinators at work: what `broker_embedded.groups` decides is written to a log, timed, and answered."""
