"""Problem -> search space -> CUDA source. Pure: no GPU, no clock, no environment."""
