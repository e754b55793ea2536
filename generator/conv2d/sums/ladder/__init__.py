"""The kernels of "Optimizing a CNN in CUDA", rung by rung. A search meets them only if it names them."""
