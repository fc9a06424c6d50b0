"""LightRAG's HTTP API over many workspaces, each served by a backend of `backend.py`."""
