"""What the MongoDB backend is made of."""
