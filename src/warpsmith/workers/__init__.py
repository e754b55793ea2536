"""Worker processes, which may die: their jobs, and the side that calls them."""
