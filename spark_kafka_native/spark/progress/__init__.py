"""What running queries tell: how far behind their topics they are, and how fast they go."""
