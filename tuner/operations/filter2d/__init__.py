"""Image filters: cuDNN's, CuPy's, NPP's and SciPy's."""
