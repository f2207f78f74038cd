"""Micro-benchmarks (pytest-benchmark) and the vectors they run on."""
