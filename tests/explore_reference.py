"""What orcu itself gives for a setting of the explorer."""

import torch

from orcu.losses import create


def library(case):
    """The same numbers from orcu: the terms of the loss with their gradients, from torch."""

    def term(loss):
        z = torch.tensor([case["logits"]], dtype=torch.float64, requires_grad=True)
        value = loss(z, torch.tensor([case["label"]]))
        value.backward()
        return value.item(), z.grad[0].numpy()

    count, name = case["classes"], case["regularizer"]
    softce = create({"name": "sord", "distance": case["distance"]}, num_classes=count)
    parts = {"softce": term(softce)}
    if name == "none":
        parts["total"] = parts["softce"]
    else:
        options = {} if name == "softplus" else {"scale": case["scale"]}
        both = create({"anchor": case["distance"], "regularizer": {"name": name, **options}}, num_classes=count)
        parts["penalty"] = term(both.regularizer)
        parts["total"] = term(both)
    return parts
