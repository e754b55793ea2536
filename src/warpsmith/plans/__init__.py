"""Run time: look-ups of stored kernels, callable plans and exported bundles."""
