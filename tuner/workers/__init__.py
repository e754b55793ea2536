"""Processes that compile, and their deadlines."""
