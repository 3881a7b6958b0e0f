"""The studies: each reads data, asks a model, keeps records, and judges them."""
