"""Tuner: search, evaluation (compile, verify, time), baselines, export."""
