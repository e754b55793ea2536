"""3x3 layers by minimal filtering: transformed tiles, a product of matrices at each point, the way back."""
