"""The tools of consumer groups: their offsets, members and lag."""
