"""Table reconstruction, ball tracking and shot recording from camera images."""
