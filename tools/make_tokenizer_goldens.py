#!/usr/bin/env python3
"""Writes tests/golden/text/*.json: token ids of tokenizers that are not ours.

  make_tokenizer_goldens.py demo MODEL.gguf   llama.cpp's ids for the demo model (needs
                                              llama-cpp-python)
  make_tokenizer_goldens.py sentencepiece     a small BPE model with scores and a prefix space,
                                              trained here with SentencePiece, and its ids
  make_tokenizer_goldens.py trained           small byte-level and SentencePiece-like BPE
                                              tokenizers, trained here with the `tokenizers`
                                              package, and its ids
"""

import argparse
import json
import pathlib

from tokenizer_lines import CODE, LANGUAGES, LINES, MARKUP, NUMBERS

try:
    import tokenizers
    from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                            pre_tokenizers, trainers)
except ImportError:  # `demo` needs none
    tokenizers = None

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


# The split patterns as the published tokenizer.json files have them, by their GGUF names.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CL100K_END = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K_END = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD = r"[^\r\n\p{L}\p{N}]?"
PATTERNS = {
    "gpt-2": [GPT2],
    "llama-bpe": [rf"{CONTRACTION}|{LEAD}\p{{L}}+|\p{{N}}{{1,3}}|{CL100K_END}"],
    "qwen2": [rf"{CONTRACTION}|{LEAD}\p{{L}}+|\p{{N}}|{CL100K_END}"],
    "gpt-4o": [rf"{LEAD}{UPPER}*{LOWER}+{CONTRACTION}?|{LEAD}{UPPER}+{LOWER}*{CONTRACTION}?|"
               rf"\p{{N}}{{1,3}}|{O200K_END}"],
    "tekken": [rf"{LEAD}{UPPER}*{LOWER}+|{LEAD}{UPPER}+{LOWER}*|\p{{N}}|{O200K_END}"],
    "smollm": [r"\p{N}", GPT2],
    "deepseek-v3": [
        r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
        r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    # Not of a published model: what a tokenizer.json may also say.
    "custom: empty matches": [r"(?=\p{N}\p{N}\p{N})"],
    "custom: lines": [r"^[^\S\n]+|\w+$|[^\w\s]+(?=\n)"],
    "custom: possessive, look-behind": [r"(?i:straße|é)|\p{Han}++|\p{P}+|\S++(?<!x)|[\s\d]"],
}


def splits(names):
    return [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in names]


def pre_tokens():
    """Byte lengths of the pre-tokens of every line."""
    result = {}
    for name, patterns in PATTERNS.items():
        pre = pre_tokenizers.Sequence(splits(patterns))
        result[name] = {"patterns": patterns, "sizes": [
            [len(piece.encode()) for piece, _ in pre.pre_tokenize_str(text)] for text in LINES]}
    write("pre_tokens.json", {"made_by": f"tokenizers {tokenizers.__version__}", "lines": LINES,
                              "tokenizers": result})


def trained_byte_level(pre, **model):
    """A byte-level BPE whose merges were learnt across all borders, so that a pre-token which is
    too long shows in the ids as well as one that is too short."""
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<|begin|>", "<|end|>"])
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False),
                          AddedToken("<tool_call>", normalized=False),
                          AddedToken("\n\n\n", normalized=False)])
    return tokenizer


def trained_sentencepiece(normalizer, decoder):
    """A BPE over characters with byte fallback, as converted SentencePiece models have it."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizer
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=special, show_progress=False,
                                  limit_alphabet=250)
    tokenizer.train_from_iterator(LINES, trainer)
    # Byte tokens are no added tokens in such models.
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.decoder = decoder
    return tokenizer


def trained():
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made = {
        "gpt2": trained_byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "smollm": trained_byte_level(pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    }
    for name, model in {"llama-bpe": {"ignore_merges": True}, "qwen2": {}, "gpt-4o": {}}.items():
        made[name] = trained_byte_level(
            pre_tokenizers.Sequence(splits(PATTERNS[name]) + [byte_level]), **model)
    made["qwen2"].normalizer = normalizers.NFC()
    mark = normalizers.Replace(" ", "\u2581")
    unmark = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    made["llama-2"] = trained_sentencepiece(
        normalizers.Sequence([normalizers.Prepend("\u2581"), mark]),
        decoders.Sequence(unmark + [decoders.Strip(" ", 1, 0)]))
    made["gemma"] = trained_sentencepiece(mark, decoders.Sequence(unmark))
    made["gemma"].pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made["gemma"].add_tokens([AddedToken("\n" * n, normalized=False) for n in range(2, 32)])

    lines = LINES + ["<|begin|>a<|end|> b", "x<tool_call>y<tool>z<tool_", "<s>a</s> b <s>"]
    result = {}
    for name, tokenizer in made.items():
        encoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in lines]
        result[name] = {
            "ids": encoded,
            # Where decoding gives another text than the line: that text.
            "decoded": {i: text for i, ids in enumerate(encoded)
                        if (text := tokenizer.decode(ids, skip_special_tokens=False)) != lines[i]},
        }
        write(f"tokenizer_{name}.json", json.loads(tokenizer.to_str()))
    write("trained_tokens.json", {"made_by": f"tokenizers {tokenizers.__version__}",
                                  "lines": lines, "tokenizers": result})


def sentencepiece():
    import io

    import sentencepiece as spm

    model = io.BytesIO()
    known = LANGUAGES[:16] + CODE + MARKUP + NUMBERS  # all other scripts fall back to bytes
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in known for line in text.split("\n")]),
        model_writer=model, model_type="bpe", vocab_size=900, character_coverage=1.0,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        add_dummy_prefix=True, allow_whitespace_only_pieces=True, minloglevel=2)
    processor = spm.SentencePieceProcessor(model_proto=model.getvalue())
    vocab = range(processor.get_piece_size())
    kinds = [("control", processor.is_control), ("unknown", processor.is_unknown),
             ("byte", processor.is_byte)]
    write("sentencepiece_tokens.json", {
        "made_by": f"sentencepiece {spm.__version__}",
        "pieces": [processor.id_to_piece(i) for i in vocab],
        "scores": [processor.get_score(i) for i in vocab],
        "types": [next((name for name, test in kinds if test(i)), "normal") for i in vocab],
        "lines": [{"text": text, "ids": processor.encode(text)} for text in LINES],
    })


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo").add_argument("model")
    commands.add_parser("sentencepiece")
    commands.add_parser("trained")
    args = parser.parse_args()
    if args.command == "demo":
        demo(args.model)
    elif args.command == "sentencepiece":
        sentencepiece()
    else:
        pre_tokens()
        trained()


if __name__ == "__main__":
    main()
