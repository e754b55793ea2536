"""Search, evaluate (compile, verify, time), baselines, export."""
