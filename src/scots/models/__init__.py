"""Networks, diffusion, the one training loop, and the cache of trained models."""
