"""What tuning found: trials, winners, where they lie. Importing this package loads no database library."""
