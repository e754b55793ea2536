"""A code-generating autotuner for convolutions, filters and small FFTs on NVIDIA GPUs."""
