"""`conv2d_circular`: depthwise layers by Fourier transforms of whole planes in shared memory."""
