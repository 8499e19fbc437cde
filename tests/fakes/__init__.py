"""Agents, heaps and sources in process, for tests and pictures."""
