"""Convolution layers: float64 references of the three passes, and PyTorch as the peer, which is cuDNN on a GPU."""
