"""`filter2d_overlap_save`: tiles of an image, filtered by transforms in shared memory."""
