"""Convolution layers: float64 references of the three passes, and PyTorch's, which are cuDNN's on a GPU."""
