"""Evaluation of compiled candidates: verification against float64, then timing, in a process of their own."""
