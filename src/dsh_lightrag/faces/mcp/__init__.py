"""The catalog over the Model Context Protocol: `dsh-lightrag mcp`.

wire          keeps stdin and stdout for the protocol, before anything else is imported
command       reads the command line and runs one transport
offer         what is served: settings, and the names that an attestation admits
server        tools and outcomes in the protocol's words
progress      tells a waiting client that its call still runs
instructions  when to use which tool, for the host's model
stdio, http   the two transports
door          who may come in over HTTP: Host, Origin, bearer token
library_logs  what the libraries log, without what they would quote
"""
