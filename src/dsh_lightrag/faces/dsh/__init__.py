"""The catalog in the DeepSeek Harness: what its files must say, and the bridge to our process.

row         the row of a patch that mounts the tools, by the harness's MCP client or by the bridge
bundle      a folder that `dsh plugin add` installs: the row and the bridge
bridge.mjs  runs inside the harness: the tools of `dsh-lightrag mcp` under their own names
"""
