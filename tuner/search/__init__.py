"""Search: the next config to try, and the configs known before the search."""
