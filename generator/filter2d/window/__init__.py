"""`filter2d_window`: a window that slides down in registers."""
