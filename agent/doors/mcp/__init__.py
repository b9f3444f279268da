"""The MCP server: the judge as tools of a coding agent, over stdio or streamable HTTP.

Contract: a client names references, candidates and runs, and reaches no file but those in the folders that
were allowed when the server was started. What is answered is bounded. The SDK is an extra (`mcp`).
"""
