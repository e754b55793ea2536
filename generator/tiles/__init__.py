"""Two-dimensional tiles that a block transforms in shared memory; several operations use them."""
