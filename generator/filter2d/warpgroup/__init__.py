"""`filter2d_warpgroup`: products of a warpgroup on Hopper's tensor cores."""
