"""`filter2d_fft`: filters as large as images, by transforms of tiles in global memory."""
