"""`filter2d_fft`: filters as large as images, by transforms whose tiles lie in global memory."""
