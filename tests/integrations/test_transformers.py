"""`compute_loss_func` and `compute_metrics` in Hugging Face's Trainer, on a tiny model with random weights."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from orcu import losses, metrics
from orcu.errors import InputError
from orcu.integrations.transformers import best_model, compute_loss_func, compute_metrics

CLASSES = 4


def tiny_model():
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


def train(folder, model, *, batch, accumulate, loss=None, steps=3, **options):
    arguments = TrainingArguments(
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
        arguments,
        train_dataset=sentences(),
        eval_dataset=sentences(),
        compute_loss_func=loss or compute_loss_func("orcu", num_classes=CLASSES),
        compute_metrics=compute_metrics(CLASSES),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # accelerate and transformers warn of each other
        trainer.train()
        return trainer.evaluate()


def weights(model):
    return torch.cat([value.detach().flatten() for value in model.parameters()])


def test_trainer_trains_with_the_loss_and_computes_the_metrics(tmp_path):
    model = tiny_model()
    start = weights(model)
    values = train(tmp_path, model, batch=8, accumulate=1, steps=6)
    assert not torch.equal(weights(model), start)
    with torch.no_grad():
        logits = model.eval()(torch.stack([row["input_ids"] for row in sentences()])).logits
    y = np.array([row["labels"] for row in sentences()])
    probs = logits.double().softmax(1)
    for name in ("sce", "ace", "mae"):
        assert values[f"eval_{name}"] == pytest.approx(getattr(metrics, name)(probs, y), abs=1e-6)
    assert values["eval_loss"] == pytest.approx(
        losses.create("orcu", num_classes=CLASSES)(logits, torch.from_numpy(y)).item(), abs=1e-4
    )


@pytest.mark.parametrize("loss", ["orcu", "cdw_ce"])
def test_loss_of_an_accumulated_batch_equals_that_of_a_full_batch(tmp_path, loss):
    function = compute_loss_func(loss, num_classes=CLASSES, weight=[1, 2, 1, 0.5])
    final_weights = []
    for batch, accumulate in ((24, 1), (6, 4)):
        model = tiny_model()
        train(tmp_path, model, batch=batch, accumulate=accumulate, loss=function)
        final_weights.append(weights(model))
    assert not torch.equal(final_weights[0], weights(tiny_model()))
    torch.testing.assert_close(*final_weights, rtol=1e-6, atol=1e-6)


def test_compute_metrics_batch_by_batch_equals_all_rows(tmp_path):
    at_once = train(tmp_path, tiny_model(), batch=8, accumulate=1, steps=1)
    by_batch = train(tmp_path, tiny_model(), batch=8, accumulate=1, steps=1, batch_eval_metrics=True)
    assert "eval_ace" in at_once
    assert "eval_ace" not in by_batch
    for name in ("eval_sce", "eval_qwk", "eval_rps", "eval_unimodality"):
        assert by_batch[name] == at_once[name]


def test_compute_loss_func_divides_by_num_items_in_batch_for_all_output_types():
    function = compute_loss_func("sord", num_classes=3)
    logits, y = torch.randn(4, 3), torch.tensor([0, 1, 2, 1])
    mean = losses.create("sord", num_classes=3)(logits, y)
    assert function({"logits": logits}, y) == pytest.approx(mean.item(), rel=1e-6)
    assert function((logits,), y, 8) == pytest.approx(mean.item() / 2, rel=1e-6)
    assert function(SimpleNamespace(logits=logits), y, torch.tensor(16)) == pytest.approx(mean.item() / 4, rel=1e-6)


def test_compute_loss_func_and_compute_metrics_refuse_invalid_arguments():
    with pytest.raises(InputError, match="^loss: 'poe'"):
        compute_loss_func("poe", num_classes=3)
    with pytest.raises(InputError, match="^reduction:"):
        compute_loss_func("orcu", num_classes=3, reduction="mean")
    with pytest.raises(InputError, match="^labels:"):
        compute_loss_func("orcu", num_classes=3)((torch.zeros(1, 3),), None)
    with pytest.raises(InputError, match="'scee'"):
        compute_metrics(3, ["scee"])
    prediction = SimpleNamespace(predictions=(np.zeros((2, 3)), "more"), label_ids=np.array([0, 1]))
    assert compute_metrics(3, ["accuracy"])(prediction) == {"accuracy": 0.5}
    with pytest.raises(InputError, match="^names: 'ace'"):
        compute_metrics(3, ["ace"])(prediction, compute_result=True)


@pytest.mark.parametrize("metric", ["rps", "accuracy"])
def test_best_model_gives_trainer_the_direction_of_the_metric(tmp_path, metric):
    arguments = TrainingArguments(str(tmp_path), eval_strategy="epoch", save_strategy="epoch", **best_model(metric))
    assert arguments.greater_is_better == (metric == "accuracy")
    assert arguments.metric_for_best_model == metric


def test_best_model_refuses_metrics_without_a_better_direction():
    for metric in ("overconfidence", "sharpness"):
        with pytest.raises(InputError, match="no better direction"):
            best_model(metric)
    with pytest.raises(InputError, match="rsp"):
        best_model("rsp")
