"""`filter2d_warpgroup`: wgmma products on Hopper's tensor cores."""
