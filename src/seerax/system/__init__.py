"""Files, locks and signals: what a program needs from its operating system."""
