"""Limits for the threads that BLAS and OpenMP start by themselves."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Literal

__all__ = ["native_threads"]


def native_threads(limit: int | None, api: Literal["blas", "openmp"] | None = None) -> Any:
    """Limit the threads of native libraries from now on; as a context: until it ends.

    Args:
        limit: threads of each library; None: as it is.
        api: which libraries; None: all.

    >>> with native_threads(1, "blas"):
    ...     pass
    """
    return _libraries(len(sys.modules)).limit(limits=limit, user_api=api)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:  # noqa: ARG001 (the key of the cache)
    """Return the native libraries; they are looked for again once more modules are imported.

    A search reads the whole memory map of the process: 2 ms, which many small passes would feel.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
