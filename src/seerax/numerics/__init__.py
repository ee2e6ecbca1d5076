"""Internal: arithmetic independent of seerax: pytrees, statistics, SIMD rows, trigonometry."""
