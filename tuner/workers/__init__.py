"""Processes that may die: their jobs, their deadlines, and the pool of compilers."""
