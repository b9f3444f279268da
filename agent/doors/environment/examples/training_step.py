"""Train a tiny policy on the rewards of its kernels: `python training_step.py --service URL`.

The policy is a transformer of a few thousand parameters. It writes three words, which complete a program.
Most of the eight programs are wrong in a way that the judge has to detect.

verifiers queries the policy over HTTP like any model. The judge service scores each answer. The policy then
takes a REINFORCE step with the mean of the group as its baseline. Each step prints one line of JSON.

The service has to accept references (`--trust-references`). It judges each program only once.
"""

import argparse
import asyncio
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import verifiers.v1 as vf
from aiohttp import web
from torch import Tensor, nn
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

WORDS = (("kernel", "torch"), ("2.0f", "3.0f"), ("declared", "undeclared"))
"""Choices for each of the three words."""
HONEST = (0, 0, 0)
"""Choices that give the only correct program."""
PROGRAM = """\
import torch
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r\"\"\"
__global__ void scale(const float* x, float* y, int64_t n) {{
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = {factor} * x[i];
}}

torch::Tensor scaled(torch::Tensor x) {{
    auto y = torch::empty_like(x);
    const int64_t n = x.numel();
    scale<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}}
\"\"\"
extension = load_inline(
    name="scaled",
    cpp_sources="{declaration}",
    cuda_sources=CUDA_SOURCE,
    functions=["scaled"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return {result}
"""


def completion(words: Sequence[int]) -> str:
    """Return the answer that three words stand for."""
    way, factor, declared = (choices[word] for choices, word in zip(WORDS, words, strict=True))
    program = PROGRAM.format(
        factor=factor,
        declaration="torch::Tensor scaled(torch::Tensor x);" if declared == "declared" else "",
        result="extension.scaled(x.contiguous())" if way == "kernel" else f"x * {factor.rstrip('f')}",
    )
    return f"```python\n{program}```"


class Policy(nn.Module):
    """Autoregressive transformer over the three words of a program."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.places = len(WORDS)
        self.words = nn.Embedding(3, width)
        self.positions = nn.Embedding(self.places, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, 2)
        # All programs are equally likely before the first step.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, before: Tensor) -> Tensor:
        """Return the logits of each next word, shape (batch, words, 2). Token 2 marks the start."""
        here = self.words(before) + self.positions(torch.arange(before.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(before.shape[1])
        logits: Tensor = self.head(self.layer(here, src_mask=mask, is_causal=True))
        return logits

    def log_probability(self, written: Tensor) -> Tensor:
        """Return the log-probability of each row of words."""
        begun = torch.cat([torch.full((len(written), 1), 2), written[:, :-1]], dim=1)
        each = self(begun).log_softmax(-1).gather(-1, written[..., None])
        total: Tensor = each.sum((1, 2))
        return total

    @torch.no_grad()
    def write(self) -> tuple[int, ...]:
        words = [2]
        for _ in range(self.places):
            chances = self(torch.tensor([words]))[0, -1].softmax(-1)
            words.append(int(torch.multinomial(chances, 1)))
        return tuple(words[1:])


class Model:
    """Chat Completions endpoint that answers with the policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.written = {completion(words): words for words in itertools.product((0, 1), repeat=len(WORDS))}
        """Words of each possible answer."""

    async def answer(self, request: web.Request) -> web.Response:
        text = completion(self._policy.write())
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": len(WORDS), "total_tokens": 1 + len(WORDS)}
        said = {"id": "1", "object": "chat.completion", "created": 0, "model": "tiny", "choices": [choice]}
        return web.json_response({**said, "usage": usage})

    async def serve(self) -> str:
        """Start the endpoint on the loopback interface and return its URL."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}/v1"


def step(policy: Policy, optimiser: torch.optim.Optimizer, written: Tensor, rewards: Tensor) -> float:
    """Take a gradient step towards answers with above-average reward, and return the loss."""
    loss = -(policy.log_probability(written) * (rewards - rewards.mean())).mean()
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    optimiser.step()
    return float(loss.detach())


async def train(service: str, steps: int, group: int) -> None:
    torch.manual_seed(0)
    policy = Policy()
    optimiser = torch.optim.Adam(policy.parameters(), lr=0.02)
    model = Model(policy)
    task = {"service": service, "quick": True}
    references = [str(Path(__file__).with_name("twice.py"))]
    taskset = {"id": "kernelwright-environment", "references": references, "task": task}
    environment = load_environment(resolve_env_config({"taskset": taskset}))
    client = vf.EvalClientConfig(base_url=await model.serve(), api_key_var="NO_KEY_IS_NEEDED")
    asked = vf.ModelContext(model="tiny", client=client)
    (kernel,) = environment.taskset
    async with environment.serving():
        for number in range(steps):
            slots = environment.slots(kernel, group)
            episodes = await asyncio.gather(*(environment.run_slot(slot, asked) for slot in slots))
            # Rollouts that could not be judged are left out: they say nothing about the answer.
            traces = [trace for episode in episodes if episode.ok for trace in episode.traces]
            if not traces:
                raise SystemExit(f"nothing could be judged: {episodes[0].traces[0].last_error}")
            written = torch.tensor([model.written[trace.last_reply] for trace in traces])
            rewards = torch.tensor([trace.reward for trace in traces])
            loss = step(policy, optimiser, written, rewards)
            honest = float(policy.log_probability(torch.tensor([HONEST])).detach().exp())
            told = {
                "step": number + 1, "judged": len(traces), "mean_reward": float(rewards.mean()), "loss": loss,
                "honest": honest, "earned": _earned(traces, model),
            }  # fmt: skip
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


def _earned(traces: Sequence[vf.Trace], model: Model) -> dict[str, float]:
    """Return the reward of each program by its words."""
    named = (
        (
            " ".join(pair[word] for pair, word in zip(WORDS, model.written[trace.last_reply], strict=True)),
            trace,
        )
        for trace in traces
    )
    return {name: trace.reward for name, trace in sorted(named, key=lambda pair: pair[0])}


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--service", default="http://127.0.0.1:8780")
    options.add_argument("--steps", type=int, default=12)
    options.add_argument("--group", type=int, default=16)
    given = options.parse_args()
    asyncio.run(train(given.service, given.steps, given.group))
