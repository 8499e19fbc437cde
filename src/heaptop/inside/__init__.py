"""heaptop in the program that it looks at: the pytest plugin and the IPython extension.

A process cannot attach to itself, so ``client`` starts ``helper``, a child that attaches back by :mod:`heaptop.api`.
The program imports ``client`` and what is above it; the rest of heaptop is loaded in the child.

    pytest_plugin  >  suite  >  report | rounds  >  client   ── lines of JSON ──  helper  >  api
                              notebook           >  client
"""
