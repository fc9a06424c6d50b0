"""The gateway over HTTP: FastAPI routes under `/knowledge-bases`, tokens, probes and MCP.

app         the application and the layers around it
layers      who calls is proven before anything is parsed; every use is recorded
naming      refuses whoever tries to name a workspace
problems    failures as problem documents
shapes      what is taken and given
bases documents sessions probes     the routes
"""
