#!/usr/bin/env python3
"""Writes tests/golden/text/*.json: token ids of tokenizers that are not ours.

  make_tokenizer_goldens.py demo MODEL.gguf   llama.cpp's ids for the demo model (needs
                                              llama-cpp-python)
  make_tokenizer_goldens.py trained           small byte-level and SentencePiece-like BPE
                                              tokenizers, trained here with the `tokenizers`
                                              package, and its ids
"""

import argparse
import json
import pathlib

from tokenizer_lines import LINES

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "text"


def write(name, value):
    OUT.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    text = text.replace('{"text"', '\n{"text"')  # one line of the file per text
    (OUT / name).write_text(text + "\n")
    print(f"{name}: {len(text)} bytes")


def demo(model):
    import llama_cpp

    llama = llama_cpp.Llama(model_path=model, vocab_only=True, verbose=False)
    lines = []
    for text in LINES:
        data = text.encode()
        line = {"text": text, "ids": llama.tokenize(data, add_bos=True, special=True)}
        # llama.cpp takes any "</s>" for an end-of-text token, even Gemma's HTML tag, and then does
        # not match it in plain text; the model's file says that it is to be matched.
        if "</s>" not in text:
            line["plain"] = llama.tokenize(data, add_bos=False, special=False)
        lines.append(line)
    write("demo_tokens.json", {
        "made_by": f"llama-cpp-python {llama_cpp.__version__}",
        "model": pathlib.Path(model).name,
        "lines": lines,
    })


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo").add_argument("model")
    args = parser.parse_args()
    if args.command == "demo":
        demo(args.model)


if __name__ == "__main__":
    main()
