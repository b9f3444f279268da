"""Write a tiny language model that always answers one text: `python tests/tiny_model.py FOLDER ANSWER.md`.

The model is a Llama with zero weights in its layers, so the next token depends only on the last one. Any
prompt is followed by the first piece of the text, each piece by the next, and the last by the end token. A
server samples, counts, streams and detokenises it like any other model.
"""

import sys
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PIECE = 60
"""Characters per piece. Each piece is one token, so all pieces have to differ."""
CERTAIN = 100.0
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


def write(folder: Path, text: str) -> None:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    tokens = [byte_level.pre_tokenize_str(piece)[0][0] for piece in pieces]
    alphabet = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set(tokens))
    names = ["<s>", "</s>", *alphabet, *tokens]
    if len(set(names)) != len(names):
        raise SystemExit("two pieces of the text are the same: choose another size")
    vocabulary = {name: number for number, name in enumerate(names)}
    words = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    words.pre_tokenizer, words.decoder = byte_level, decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="</s>", chat_template=TEMPLATE
    )
    size = -(-(len(tokens) + 1) // 8) * 8
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(names), hidden_size=size, intermediate_size=8, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=65_536, bos_token_id=0,
            eos_token_id=1, pad_token_id=1, tie_word_embeddings=False,
        )
    )  # fmt: skip
    chain = [*(vocabulary[token] for token in tokens), 1]
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.fill_(1.0 if "norm" in name else 0.0)
        entries, following = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        entries[:, 0] = 1.0
        following[chain[0], 0] = CERTAIN
        for place, (token, after) in enumerate(pairwise(chain), 1):
            entries[token] = torch.eye(size)[place]
            following[after, place] = CERTAIN
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]).read_text(encoding="utf-8"))
