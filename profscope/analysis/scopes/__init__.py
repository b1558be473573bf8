"""What spans add up to, as tables and trees of scopes, and by whatever else rows may be of."""
