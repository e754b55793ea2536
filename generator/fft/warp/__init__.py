"""`fft_warp`: transforms within a warp."""
