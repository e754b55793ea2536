"""One tuning run: the search, its candidates in progress, and the tuners that take part."""
