"""The check of a program that nobody has tuned: some of its results against float64 sums, once."""
