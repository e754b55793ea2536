"""The arithmetic of fast Fourier transforms, for the families that generate them: plain numbers and CUDA text."""
