"""Float64 references on the device: plain kernels that share nothing with the families that they check."""
