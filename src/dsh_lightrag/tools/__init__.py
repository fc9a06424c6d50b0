"""The tools: one file each, and the catalog that lists them."""
