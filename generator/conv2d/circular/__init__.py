"""`conv2d_circular`: depthwise layers, each plane in one tile that is transformed in shared memory."""
