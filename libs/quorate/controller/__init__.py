"""WRITE: what an active controller decides. It reads the state and answers records; it never changes the state."""
