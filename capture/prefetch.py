"""Weights on their way: the next layer's bytes are asked for while this layer computes.

On the CPU tensors are views of mapped files. A helper thread has the next layer read into the
page cache with `fetch`, so the disk is never idle and no memory is held but the cache; `wait_for`
maps the pages of the layer that runs now, which costs next to nothing where they are cached and
spares the compute threads their page faults. Both are advice to the kernel: where it knows none,
pages are read when they are first touched, with the same result.

On a GPU the helper thread copies the next layer to the device on a stream of its own.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import torch
from torch import Tensor

# of Linux; the mmap module does not name the last one, which came with 5.14
RANDOM, DONT_NEED, POPULATE_READ = 1, 4, 22
FEW_ROWS = 1024
STEP = 64 << 20
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
if _libc is not None:
    _libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    _libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)

Weights = dict[str, Tensor]


class Unreadable(OSError):
    """The disk failed under a mapped file; untreated, touching the page would kill the process."""


def fetch(weights: Weights) -> None:
    """Read the pages of mapped tensors into the page cache, and keep none of them mapped.

    Not MADV_WILLNEED: Linux then caches single pages, which costs ten times the time of the
    large folios that ordinary reading makes, and again whenever they are mapped. What is cached
    already is left alone: to map it here too would only take time from the compute threads.
    Raises Unreadable.
    """
    for start, length in _pieces(weights.values(), STEP):
        if cached(start, length):
            continue
        if not _advise(start, length, POPULATE_READ) or not _advise(start, length, DONT_NEED):
            return


def look_up(weights: Weights, rows: int) -> None:
    """Prepare for reading `rows` rows here and there of mapped tensors.

    A page fault reads its neighbourhood too, megabytes on a fast disk: for a few rows that would
    be most of the table, for many rows the table is best read through.
    """
    if rows > FEW_ROWS:
        fetch(weights)
        return
    for start, length in _pieces(weights.values(), STEP):
        if not _advise(start, length, RANDOM):
            return


def wait_for(weights: Weights) -> None:
    """Map the pages of mapped tensors, reading those that are not cached. Raises Unreadable."""
    for start, length in _pieces(weights.values(), STEP):
        if not _advise(start, length, POPULATE_READ):
            return


def to_device(weights: Weights, device: torch.device) -> Weights:
    """Copies on a GPU, made on a stream of their own so that they overlap with compute."""
    if device.type != "cuda":
        return {name: tensor.to(device) for name, tensor in weights.items()}
    stream, compute = torch.cuda.Stream(device), torch.cuda.default_stream(device)
    with torch.cuda.stream(stream):
        copies = {name: tensor.to(device) for name, tensor in weights.items()}
    stream.synchronize()
    for tensor in copies.values():
        # the memory goes back to the copying stream's pool only after compute has used it
        tensor.record_stream(compute)
    return copies


class Ahead:
    """One layer ahead: `take(n)` gives layer n and starts to load the one that follows.

    `load` reads one layer and is called once for each of `layers`, in order, on a thread of
    its own where `active`. What it raises is raised by `take`.
    """

    def __init__(
        self, load: Callable[[int], Weights], layers: Iterable[int], *, active: bool
    ) -> None:
        self._load, self._rest = load, iter(layers)
        self._pool = ThreadPoolExecutor(1, "weights") if active else None
        self._next: tuple[int, Future[Weights]] | None = None
        self._start()

    def take(self, layer: int) -> Weights:
        if self._next is None:
            return self._load(layer)
        number, future = self._next
        assert number == layer, f"layers are taken in order: expected {number}, found {layer}"
        weights = future.result()
        self._start()
        return weights

    def _start(self) -> None:
        number = next(self._rest, None) if self._pool else None
        if self._pool is None or number is None:
            self._next = None
        else:
            self._next = number, self._pool.submit(self._load, number)

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._next = None


def _pieces(tensors: Iterable[Tensor], step: int) -> Iterator[tuple[int, int]]:
    """Page-aligned (address, bytes) that cover the tensors, neighbours joined, cut at `step`."""
    page = mmap.PAGESIZE
    spans: list[list[int]] = []
    for tensor in sorted(tensors, key=Tensor.data_ptr):
        start = tensor.data_ptr() // page * page
        end = tensor.data_ptr() + tensor.numel() * tensor.element_size()
        if spans and start <= spans[-1][1] + page:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    for start, end in spans:
        for begin in range(start, end, step):
            yield begin, min(step, end - begin)


def cached(start: int, length: int) -> bool:
    """Whether every page from a page-aligned address on is in the page cache; False where the
    system does not tell. Of a file that the user neither owns nor may write, Linux says yes: its
    pages are then read when `wait_for` maps them."""
    if _libc is None:
        return False
    pages = -(-length // mmap.PAGESIZE)
    resident = ctypes.create_string_buffer(pages)
    if _libc.mincore(start, length, resident) != 0:
        return False
    return resident.raw.count(b"\x01") == pages


def _advise(start: int, length: int, advice: int) -> bool:
    """False where the system knows no such advice. Raises Unreadable."""
    if _libc is None:
        return False
    if _libc.madvise(start, length, advice) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EFAULT, errno.EIO, getattr(errno, "EHWPOISON", -1)):
        raise Unreadable(number, "the file was cut or the disk failed")
    return False
