"""What a benchmark measured: figures with aims, their history file, the terminal, and the page docs/benchmarks.md."""
