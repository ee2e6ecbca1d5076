"""Internal: measures how fast seerax is, in one run with both sides of every ratio."""
