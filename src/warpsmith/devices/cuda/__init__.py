"""NVIDIA GPUs: compilers, memory, launches. Importing it needs no GPU, no driver and nothing of the extra `cuda`."""
