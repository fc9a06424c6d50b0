"""Put retrieved context before a task; the server is named by LIGHTRAG_ENDPOINT."""

import os

from dsh_lightrag.prompt import KnowledgeMiddleware, PromptDocument

endpoint = os.environ.get("LIGHTRAG_ENDPOINT", "http://127.0.0.1:9621")
middleware = KnowledgeMiddleware({"endpoint": endpoint, "fence": True, "timeout": "1m"})

print(middleware.enhance(PromptDocument("Who discovered polonium?")).render())
