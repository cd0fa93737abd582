"""What the broker counts while it serves, and how it tells: as a value, and as text for Prometheus.

`traffic` counts on the hot path, `histogram` times and `error_codes` finds errors in answers; `snapshot` are the values
that `Broker.metrics` gives, `prometheus` writes them down.
"""
