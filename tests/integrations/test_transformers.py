"""Hugging Face's Trainer with a loss and the metrics of orcu, on a tiny model with random weights."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from orcu import losses, metrics
from orcu.errors import InputError
from orcu.integrations.transformers import compute_loss_func, compute_metrics

CLASSES = 4


def tiny():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=CLASSES,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def sentences(n=48):
    rng = np.random.default_rng(0)
    return [{"input_ids": torch.from_numpy(rng.integers(30, size=6)), "labels": int(rng.integers(4))} for _ in range(n)]


def trained(folder, model, *, batch, accumulate, loss=None, steps=3, **options):
    settings = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulate,
        max_steps=steps,
        learning_rate=0.05,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0.0,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        logging_strategy="no",
        **{name: value for name, value in options.items() if name == "batch_eval_metrics"},
    )
    trainer = Trainer(
        model,
        settings,
        train_dataset=sentences(),
        eval_dataset=sentences(),
        compute_loss_func=loss or compute_loss_func("orcu", num_classes=CLASSES),
        compute_metrics=compute_metrics(CLASSES),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # accelerate and transformers on their own interfaces
        trainer.train()
        found = trainer.evaluate()
    return trainer, found


def weights(model):
    return torch.cat([value.detach().flatten() for value in model.parameters()])


def test_the_trainer_trains_and_judges(tmp_path):
    model = tiny()
    start = weights(model)
    _, found = trained(tmp_path, model, batch=8, accumulate=1, steps=6)
    assert not torch.equal(weights(model), start)
    with torch.no_grad():
        logits = model.eval()(torch.stack([row["input_ids"] for row in sentences()])).logits
    y = np.array([row["labels"] for row in sentences()])
    probs = logits.double().softmax(1)
    for name in ("sce", "ace", "mae"):
        assert found[f"eval_{name}"] == pytest.approx(getattr(metrics, name)(probs, y), abs=1e-6)
    assert found["eval_loss"] == pytest.approx(
        losses.create("orcu", num_classes=CLASSES)(logits, torch.from_numpy(y)).item(), abs=1e-4
    )


@pytest.mark.parametrize("loss", ["orcu", "cdw_ce"])
def test_an_accumulated_batch_trains_like_a_whole_one(tmp_path, loss):
    function = compute_loss_func(loss, num_classes=CLASSES, weight=[1, 2, 1, 0.5])
    ends = []
    for batch, accumulate in ((24, 1), (6, 4)):
        model = tiny()
        trained(tmp_path, model, batch=batch, accumulate=accumulate, loss=function)
        ends.append(weights(model))
    assert not torch.equal(ends[0], weights(tiny()))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-6, atol=1e-6)


def test_metrics_batch_by_batch_are_those_of_all_rows(tmp_path):
    _, whole = trained(tmp_path, tiny(), batch=8, accumulate=1, steps=1)
    _, batches = trained(tmp_path, tiny(), batch=8, accumulate=1, steps=1, batch_eval_metrics=True)
    assert "eval_ace" in whole
    assert "eval_ace" not in batches
    for name in ("eval_sce", "eval_qwk", "eval_rps", "eval_unimodality"):
        assert batches[name] == whole[name]


def test_the_divisor_and_the_forms_of_outputs():
    function = compute_loss_func("sord", num_classes=3)
    logits, y = torch.randn(4, 3), torch.tensor([0, 1, 2, 1])
    mean = losses.create("sord", num_classes=3)(logits, y)
    assert function({"logits": logits}, y) == pytest.approx(mean.item(), rel=1e-6)
    assert function((logits,), y, 8) == pytest.approx(mean.item() / 2, rel=1e-6)
    assert function(SimpleNamespace(logits=logits), y, torch.tensor(16)) == pytest.approx(mean.item() / 4, rel=1e-6)


def test_mistakes_are_told():
    with pytest.raises(InputError, match="needs a head of its own"):
        compute_loss_func("poe", num_classes=3)
    with pytest.raises(InputError, match="reduction"):
        compute_loss_func("orcu", num_classes=3, reduction="mean")
    with pytest.raises(InputError, match="the batch has none"):
        compute_loss_func("orcu", num_classes=3)((torch.zeros(1, 3),), None)
    with pytest.raises(InputError, match="unknown metric 'scee'"):
        compute_metrics(3, ["scee"])
    told = SimpleNamespace(predictions=(np.zeros((2, 3)), "more"), label_ids=np.array([0, 1]))
    assert compute_metrics(3, ["accuracy"])(told) == {"accuracy": 0.5}
    with pytest.raises(InputError, match="batch_eval_metrics"):
        compute_metrics(3, ["ace"])(told, compute_result=True)
