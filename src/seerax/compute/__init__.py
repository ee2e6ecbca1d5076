"""Internal: devices and processes, where arrays live and how work is shared."""
