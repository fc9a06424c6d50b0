"""Retrieved context before a prompt: a middleware, pipeline files, and retrievers.

document = PromptDocument("Who discovered polonium?")
middleware = KnowledgeMiddleware({"endpoint": "http://127.0.0.1:9621", "fence": True})
print(middleware.enhance(document).render())
"""

from __future__ import annotations

from dsh_lightrag.prompt.config import KnowledgeConfig
from dsh_lightrag.prompt.document import ContextBlock, PromptDocument
from dsh_lightrag.prompt.middleware import EmptyRetrievalError, KnowledgeMiddleware

__all__ = [
    "ContextBlock",
    "EmptyRetrievalError",
    "KnowledgeConfig",
    "KnowledgeMiddleware",
    "PromptDocument",
]
