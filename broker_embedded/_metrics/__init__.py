"""The metrics of the broker, as values and as text for Prometheus.

`traffic` counts on the hot path, `histogram` measures times, `error_codes` finds errors in responses. `snapshot` has
the values of `Broker.metrics`, `prometheus` formats them.
"""
