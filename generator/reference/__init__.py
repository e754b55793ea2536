"""Float64 references on the device: plain kernels that share nothing with the families they judge."""
