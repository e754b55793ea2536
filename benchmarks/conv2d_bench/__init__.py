"""What the benchmarks of convolution layers share: which problems, how they are measured, what is kept and printed."""
