"""heaptop for coding agents: ``heaptop mcp``, a server of the Model Context Protocol.

``server`` has the tools, resources and prompts, and serves them. ``attaching`` decides which process a call may attach
to, and leaves it clean when the call is cancelled; ``recordings`` opens files of one folder; ``summaries`` makes short
answers of what ``heaptop.api`` found; ``answers`` bounds them and marks what a target chose. Only ``server`` needs the
package ``mcp``; it draws nothing, reads no value of an object, and changes no program.
"""
