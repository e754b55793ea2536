"""Check of an untuned program at its first use: some of its results are compared with float64 sums, once."""
