"""What the tuner knows of each operation: inputs, float64 references, and the other libraries that solve it."""
