"""Pydantic AI: every user message reaches the model with retrieved context before it."""

import os

from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.models.test import TestModel  # in your agent: your model

from dsh_lightrag.prompt import KnowledgeMiddleware
from dsh_lightrag.prompt.pydantic_ai_processor import augmented

endpoint = os.environ.get("LIGHTRAG_ENDPOINT", "http://127.0.0.1:9621")
knowledge = KnowledgeMiddleware({"endpoint": endpoint, "fence": True, "timeout": "1m"})
agent = Agent(TestModel(), capabilities=[ProcessHistory(augmented(knowledge))])

print(agent.run_sync("Who discovered polonium?").all_messages()[0].parts[0].content)
