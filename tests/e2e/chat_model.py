"""A tiny random chat model: byte-level tokens, a chat template, tool calls, a sliding window."""

import json

import make_tiny_model
from tiny_specs import TinySpec, _gemma3

SPECIALS = ["<bos>", "<eos>", "<|im_start|>", "<|im_end|>", "<unused>"]
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>"]  # in plain text, too
ROWS = 288  # of the embedding: more than there are tokens
TOKENS = 256 + len(SPECIALS) + len(ADDED)
EOS, END = 257, 259
USER = {"role": "user", "content": "Tell me about rings."}

TEMPLATE = """{{ bos_token }}
{%- if tools %}{{ '<|im_start|>system\nTools: ' + tools|tojson + '<|im_end|>\n' }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\n' + {"name": call.function.name, "arguments": call.function.arguments}|tojson + '\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""


def byte_alphabet():
    """GPT-2's characters for the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}


def write_chat_model(path, template=TEMPLATE, context=4096, specials=SPECIALS, ends=(EOS, END)):
    """`specials`: control tokens from 256 on, the first of them BOS, the second EOS."""
    config = {**_gemma3(6, 3, 64, None), "vocab_size": ROWS, "max_position_embeddings": context,
              "bos_token_id": 256, "eos_token_id": list(ends)}
    spec = TinySpec("chat", config, 51)
    make_tiny_model.write_hf(path, make_tiny_model.make_tensors(spec), config, 1)
    alphabet = byte_alphabet()
    added = [{"id": 256 + i, "content": text, "special": text in specials, "single_word": False,
              "lstrip": False, "rstrip": False, "normalized": False}
             for i, text in enumerate([*specials, *ADDED])]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": added,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
                                      {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                                    {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"<bos>": {"id": "<bos>", "ids": [256],
                                                        "tokens": ["<bos>"]}}},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "vocab": {alphabet[b]: b for b in range(256)}, "merges": []},
    }
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"bos_token": "<bos>", "eos_token": "<eos>"}
    if template is not None:
        settings["chat_template"] = template
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


def text_of(tokens):
    """What the reference decodes token ids to: bytes, control tokens left out."""
    data = b""
    for token in tokens:
        if token < 256:
            data += bytes([token])
        elif token >= 256 + len(SPECIALS) and token < TOKENS:
            data += ADDED[token - 256 - len(SPECIALS)].encode()
    return data.decode("utf-8", errors="replace")
