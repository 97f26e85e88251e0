"""Reference values of the explorer from the library."""

import torch

from orcu.losses import create


def library(case):
    """Terms of the loss with their gradients, from torch."""

    def term(loss):
        z = torch.tensor([case["logits"]], dtype=torch.float64, requires_grad=True)
        value = loss(z, torch.tensor([case["label"]]))
        value.backward()
        return value.item(), z.grad[0].numpy()

    num_classes, name = case["classes"], case["regularizer"]
    softce = create({"name": "sord", "distance": case["distance"]}, num_classes=num_classes)
    parts = {"softce": term(softce)}
    if name == "none":
        parts["total"] = parts["softce"]
    else:
        options = {} if name == "softplus" else {"scale": case["scale"]}
        loss = create({"anchor": case["distance"], "regularizer": {"name": name, **options}}, num_classes=num_classes)
        parts["penalty"] = term(loss.regularizer)
        parts["total"] = term(loss)
    return parts
