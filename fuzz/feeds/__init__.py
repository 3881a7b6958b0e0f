"""The functions that feed one reader each: bytes in, a value or a sentence of howsure's out, and nothing else."""
