"""Process groups under torchrun."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist


def is_first() -> bool:
    """Whether this process writes files and messages: rank 0, or any process outside torchrun."""
    return not dist.is_initialized() or dist.get_rank() == 0


@contextmanager
def process_group() -> Iterator[str | None]:
    """Join the process group of torchrun; yields the device of this process, or ``None`` outside torchrun."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield None
        return
    gpus = torch.cuda.is_available()
    dist.init_process_group("nccl" if gpus else "gloo")
    try:
        if gpus:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        yield f"cuda:{os.environ['LOCAL_RANK']}" if gpus else "cpu"
    finally:
        dist.destroy_process_group()


@contextmanager
def first_before_others() -> Iterator[None]:
    """Run the block in the first process alone, then in the others, which find its files."""
    if dist.is_initialized() and not is_first():
        dist.barrier()
    yield
    if dist.is_initialized() and is_first():
        dist.barrier()
