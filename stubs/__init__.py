"""The stubs that type checkers and editors read, made from the catalogues: ``python -m stubs`` writes them.

The names of some rooms come out of catalogues, where a type checker sees nothing. The build of a wheel, a source
distribution or an editable installation writes a ``.pyi`` file next to each of these rooms; so does ``make setup``.
"""
