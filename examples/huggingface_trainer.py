"""Hugging Face's Trainer with orcu's loss and metrics, on words rated by people.

    python examples/huggingface_trainer.py

The lexicon of the package vaderSentiment: 7520 words and emoticons, each rated by ten people; the label is
the median, in seven grades from "-3 or less" to "3 or more". A tiny transformer with random weights
reads them by runs of three letters, so that nothing is downloaded. With a pretrained model the two lines that
name orcu stay the same.
"""

import os
import tempfile
import zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here is fetched

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from orcu import data, metrics
from orcu.integrations.transformers import compute_loss_func, compute_metrics

LONGEST = 16
VOCABULARY = 4096
WATCHED = ["accuracy", "off_by_one_accuracy", "mae", "sce", "rps", "unimodality"]


def pieces(word: str) -> dict[str, list[int]]:
    """A word as its runs of three letters, hashed and padded; the first token stands for the whole."""
    framed = f"<{word.lower()}>"
    runs = [framed[k : k + 3].encode() for k in range(max(1, len(framed) - 2))]
    codes = [1, *(2 + zlib.crc32(run) % (VOCABULARY - 2) for run in runs[: LONGEST - 1])]
    padding = [0] * (LONGEST - len(codes))
    return {"input_ids": codes + padding, "attention_mask": [1] * len(codes) + padding}


def main() -> None:
    """Train a few epochs and print the metrics of the held-out words."""
    torch.set_num_threads(1)
    words = data.create("vader_words")
    rows = [(row.text, row.label) for row in words.rows(words.root())]
    classes = words.card.classes
    # Forms of one word, such as "fool" and "foolish", stand on both sides: that is what can be learned here.
    held_out = [zlib.crc32(word.encode()) % 5 == 0 for word, _ in rows]
    train, test = (
        [{**pieces(w), "labels": k} for (w, k), out in zip(rows, held_out, strict=True) if out == side]
        for side in (False, True)
    )

    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=128,
            max_position_embeddings=LONGEST,
            num_labels=len(classes),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            TrainingArguments(
                output_dir=folder,
                num_train_epochs=6,
                per_device_train_batch_size=32,
                gradient_accumulation_steps=2,
                per_device_eval_batch_size=256,
                learning_rate=2e-3,
                lr_scheduler_type="cosine",
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
                dataloader_pin_memory=False,
            ),
            train_dataset=train,
            eval_dataset=test,
            compute_loss_func=compute_loss_func("orcu", num_classes=len(classes), scale=3.0),
            compute_metrics=compute_metrics(len(classes), WATCHED),
        )
        trainer.remove_callback(PrinterCallback)  # the table below says it all
        trainer.train()
        found = trainer.evaluate()

    shares = np.bincount([row["labels"] for row in train], minlength=len(classes)) / len(train)
    y = np.array([row["labels"] for row in test])
    blind = np.tile(shares, (len(y), 1))  # what one says without reading the word
    print(f"{len(train)} words to train on, {len(test)} to judge, {len(classes)} grades")
    print(f"{'':14s}{'without reading':>16s}{'trained':>10s}")
    for name in WATCHED:
        told = metrics.unimodality(blind) if name == "unimodality" else getattr(metrics, name)(blind, y)
        print(f"{name:14s}{told:16.3f}{found[f'eval_{name}']:10.3f}")
    for word in ("wonderful", "boring", "murderous", "helpless"):
        batch = {name: torch.tensor([value]) for name, value in pieces(word).items()}
        with torch.no_grad():
            probs = model.eval()(**batch).logits.softmax(1)[0]
        print(f"{word:14s}" + " ".join(f"{grade} {p:.2f}" for grade, p in zip(classes, probs, strict=True)))


if __name__ == "__main__":
    main()
