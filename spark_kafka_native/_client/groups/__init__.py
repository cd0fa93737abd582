"""Consumer groups from the side of their members: assignors, memberships and their requests."""
