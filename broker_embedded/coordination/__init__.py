"""Coordinators at work: what `broker_embedded.coordinator` decides is written to a log, timed, and answered."""
