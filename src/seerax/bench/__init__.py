"""How fast it is: one run, one table. Every measurement is a process of its own, one after another.

So each has its own devices, its own compiled programs and its own peak of memory, and none warms up another.
"""

from seerax.bench.report import figures, write
from seerax.bench.sections import SECTIONS, measure

__all__ = ["SECTIONS", "figures", "measure", "write"]
