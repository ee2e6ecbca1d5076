"""Arithmetic that knows nothing of seerax: pytrees, statistics, SIMD-friendly rows, fast trigonometry."""
