"""From trials to a winner: the fastest few once more, on fresh data, beside the other libraries."""
