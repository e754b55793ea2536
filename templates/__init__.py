"""The CUDA text: one template a kernel family, and the pieces that they share."""
