"""Three architectures on a GPU with their pairs fused: values, gradients and times, eager and compiled."""

import copy

import torch

from agent.kernels import replace_modules
from benchmarks.kernels.architectures import ARCHITECTURES

from .kernel_calls import close

PAIRS = {"unet": 25, "decoder": 11, "vit": 4}


def pairs_of_whole_models() -> None:
    """A pair is fused with its times, or stays because it is slower here; nothing else is a reason."""
    for architecture in ARCHITECTURES:
        torch.manual_seed(0)
        native = architecture.model(False).cuda()
        inputs = [x.cuda() for x in architecture.inputs(False)]
        model = copy.deepcopy(native)
        done = replace_modules(model, inputs)
        slower = [reason for reason in done.kept.values() if reason.startswith("slower here")]
        assert len(done.fused) + len(slower) == PAIRS[architecture.name], str(done)
        assert all(fusion.gain is not None for fusion in done.fused.values()), str(done)
        torch._dynamo.reset()
        for network in (model, torch.compile(model)):
            value, truth = network(*inputs), native(*inputs)
            close(value, truth.double(), 1e-4)
            found = torch.autograd.grad(value.square().mean(), list(model.parameters()))
            wanted = torch.autograd.grad(truth.square().mean(), list(native.parameters()))
            for mine, theirs in zip(found, wanted, strict=True):
                close(mine, theirs.double(), 1e-4)


CHECKS = (pairs_of_whole_models,)
