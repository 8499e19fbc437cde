"""Everything that changes a target: ptrace, the stub, the helper process, removal.

Imports inspect, agent and native; no backend and no session.
"""
