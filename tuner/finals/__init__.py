"""Finals: the fastest candidates are verified on fresh data and timed beside the other libraries."""
