"""What the cluster consists of, as values, and the rules by which requests change it. No socket, clock or thread."""
