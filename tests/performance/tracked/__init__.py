"""The suite that asv runs; tests/test_benchmarks.py runs the same functions under pytest."""
