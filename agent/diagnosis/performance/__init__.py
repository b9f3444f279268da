"""What a right but slow kernel should change first."""
