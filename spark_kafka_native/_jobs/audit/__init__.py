"""The audit: a comparison of topics with their copies, by offsets and times, or record by record."""
