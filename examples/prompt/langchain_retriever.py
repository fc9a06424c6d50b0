"""LangChain: retrieve passages, and fence them before they go into a prompt."""

from dsh_lightrag import LightRagSettings
from dsh_lightrag.prompt.block import make_block
from dsh_lightrag.prompt.langchain_retriever import LightRagRetriever

retriever = LightRagRetriever(settings=LightRagSettings.from_env(query={"mode": "naive"}))

passages = retriever.invoke("Who discovered polonium?")
sources = "\n\n".join(f"{p.metadata['file_path']}: {p.page_content}" for p in passages)
print(make_block("Sources", sources, 20_000, fence=True))
