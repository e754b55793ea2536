"""Worker processes, which may die: their jobs, deadlines and the pool of compilers."""
