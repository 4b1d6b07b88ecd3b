"""Benchmarks. ``python -m benchmarks`` measures, writes ``results/benchmarks`` and prints the published tables."""
