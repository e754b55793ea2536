"""Storage of tuning results: trials and winners. Importing this package loads no database library."""
