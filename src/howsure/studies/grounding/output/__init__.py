"""What a run leaves for people: files per user, and screens with the click drawn on them."""
