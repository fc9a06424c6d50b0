"""Many teams' knowledge bases behind one service: metadata, ingestion, tokens, search over MCP."""
