"""Writing Arrow record batches through Produce, idempotent and transactional."""
