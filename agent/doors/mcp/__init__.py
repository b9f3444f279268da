"""The MCP server: the judge as tools of a coding agent, over stdio or streamable HTTP.

A client names references, candidates and runs. The client reaches only files in the folders that were allowed
when the server was started. Answers are bounded in size. The SDK is an extra (`mcp`).
"""
