"""What a dataset is, how it is stored, checked, and made in pieces."""
