"""One tuning run: the search, the candidates on their way, and whoever takes part."""
