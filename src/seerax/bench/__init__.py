"""How fast it is: one run, one table, both sides of every ratio in it."""
