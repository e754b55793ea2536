"""Which config is tried next, and what is known before any of them is."""
