"""LlamaIndex: retrieve nodes, and fence them before they go into a prompt."""

from dsh_lightrag import LightRagSettings
from dsh_lightrag.prompt.block import make_block
from dsh_lightrag.prompt.llama_index_retriever import LightRagRetriever

retriever = LightRagRetriever(LightRagSettings.from_env(query={"mode": "naive"}))

nodes = retriever.retrieve("Who discovered polonium?")
sources = "\n\n".join(f"{n.metadata['file_path']}: {n.get_content()}" for n in nodes)
print(make_block("Sources", sources, 20_000, fence=True))
