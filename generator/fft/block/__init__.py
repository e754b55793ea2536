"""`fft_block`: transforms in a tile of shared memory."""
