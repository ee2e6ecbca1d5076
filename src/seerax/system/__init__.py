"""Internal: files, locks and signals of the operating system."""
