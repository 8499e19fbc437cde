"""Heap dumps: a snapshot as a file, which is written from a target and answers as the snapshot did; tables made of it.

Writing takes pieces that a clone makes; reading has them understood by the native core, in heaptop's own process. It
imports ``recordings`` (compression, the state of a session) and ``injector`` (the core); ``watching``, which waits
for a target, is above it.
"""
