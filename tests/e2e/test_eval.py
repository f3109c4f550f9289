"""`eval kv` against numpy over the logits that the program itself writes, and what it promises:
a run can be interrupted and continued, parts of a codec can be told apart, bad flags are refused."""

import html.parser
import json
import signal
import subprocess
import time

import numpy as np
import pytest

import kld
from make_tiny_model import test_tokens as fixed_tokens
from ringkeep_cli import BINARY, fails, logits, ok, ok_json
from tiny_specs import SPECS

CTX = 256
KEYS = ["codec", "k_bits", "v_bits", "kv_bytes", "ppl", "ppl_ratio", "ppl_ratio_se", "kld_mean",
        "kld_median", "kld_p99", "kld_p999", "kld_max", "same_top1", "prefill_tok_s",
        "decode_tok_s"]
SPEEDS = {"prefill_tok_s", "decode_tok_s"}


@pytest.fixture
def ids(tmp_path):
    """A file of 600 token ids (two chunks of CTX, and some more)."""
    path = tmp_path / "text.ids"
    path.write_text(" ".join(map(str, fixed_tokens(SPECS["gemma3"], 600))))
    return path


def eval_kv(model, ids, codecs, *flags, ctx=CTX):
    return ok_json("eval", "kv", model, "--tokens-file", ids, "--codecs", codecs, "--ctx", ctx,
                   "--free-run", 16, *flags)


def quality(result):
    """The result without what depends on the clock."""
    strip = lambda row: {k: v for k, v in row.items() if k not in SPEEDS}
    return {k: [strip(row) for row in v] if isinstance(v, list) else v for k, v in result.items()}


def dumps(model, tokens, folder, *flags):
    return logits(model, tokens, folder, "--ctx", CTX, *flags)


@pytest.mark.parametrize("exact", [False, True])
def test_columns_are_those_of_numpy(exact, tiny, ids, tmp_path):
    model, mode = tiny.hf("gemma3"), ("--exact",) * exact
    result = eval_kv(model, ids, "f16,8,K5V4,2", *mode)
    assert [row["codec"] for row in result["rows"]] == ["f16", "8", "K5V4", "2"]
    assert result["model"] == str(model) and result["ctx"] == CTX and result["chunks"] == 2
    tokens = list(map(int, ids.read_text().split()))
    chunks = [tokens[:CTX], tokens[CTX:2 * CTX]]
    f16 = np.concatenate([dumps(model, c, tmp_path, *mode)[CTX // 2:-1] for c in chunks])
    targets = np.concatenate([c[CTX // 2 + 1:] for c in chunks])
    # kld.compare lets row i predict tokens[i + 1]
    next_tokens = np.concatenate([[0], targets])
    for row in result["rows"]:
        assert list(row)[:len(KEYS)] == KEYS
        other = np.concatenate([dumps(model, c, tmp_path, "--kv-bits", row["codec"], *mode)
                                [CTX // 2:-1] for c in chunks])
        expected = kld.compare(f16, other, next_tokens)
        assert expected["rows"] == result["scored_rows"]
        for key in ("kld_mean", "kld_median", "kld_p99", "kld_max", "ppl_ratio", "ppl"):
            assert row[key] == pytest.approx(expected[key], rel=1e-6, abs=1e-12), key
        assert row["same_top1"] == pytest.approx(expected["same_top1"])
    reference, eight, k5v4, two = result["rows"]
    assert reference["kld_max"] == 0 and reference["ppl_ratio"] == 1
    assert reference["same_top1"] == 100 and reference["greedy_agreed"] == 16
    assert 0 < eight["kld_mean"] < k5v4["kld_mean"] < two["kld_mean"]
    assert (k5v4["k_bits"], k5v4["v_bits"], reference["k_bits"]) == (5, 4, 16)
    planned = ok_json("plan", model, "--kv-bits", "8", "--ctx", CTX)
    assert eight["kv_bytes"] == planned["totals"]["kv_bytes"]
    if exact:
        assert result["noise_floor"] is None
    else:
        floor = kld.compare(np.concatenate([dumps(model, c, tmp_path, "--exact")[CTX // 2:-1]
                                            for c in chunks]), f16)
        assert result["noise_floor"]["kld_mean"] == pytest.approx(floor["kld_mean"], rel=1e-5)


def test_greedy_continuations_are_those_of_run(demo, tmp_path):
    """The continuation after half a chunk parts from f16's where two runs of the program part."""
    text = tmp_path / "text.txt"
    text.write_text("The keeper of the lighthouse wrote down the weather every evening. " * 40)
    result = ok_json("eval", "kv", demo, "--text", text, "--codecs", "2", "--ctx", 64, "--chunks",
                     1, "--free-run", 24, "--prompts", 1)
    tokens = ok_json("tokenize", demo, "--text-file", text)
    prompt = "".join(tokens["pieces"][1:32]).replace("\u2581", " ")
    assert ok_json("tokenize", demo, "--text", prompt)["tokens"] == tokens["tokens"][:32]
    f16, two = (ok_json("run", demo, "--raw", "-p", prompt, "--temp", 0, "-n", 24, "--ignore-eos",
                        "--kv-bits", codec)["tokens"] for codec in ("f16", "2"))
    same = next((i for i, (a, b) in enumerate(zip(f16, two)) if a != b), 24)
    assert result["rows"][0]["greedy_agreed"] == same


def test_parts_of_a_codec(tiny, ids):
    model = tiny.hf("gemma3")
    whole = eval_kv(model, ids, "4,K4Vf16,Kf16V4,full=f16+sliding=4,full=4+sliding=f16",
                    "--ablate", "--chunks", 1)
    values = lambda row: [row[k] for k in KEYS[3:13]]
    parts = {row["part"]: row for row in whole["ablation"] if row["codec"] == "4"}
    assert list(parts) == ["K", "V", "sliding", "full"]
    for part, written in zip(("K", "V", "sliding", "full"), whole["rows"][1:]):
        assert values(parts[part]) == values(written), part
    only = eval_kv(model, ids, "4", "--only", "sliding", "--chunks", 1)
    assert values(only["rows"][0]) == values(parts["sliding"])
    assert only["rows"][0]["codec"] == "4" and only["rows"][0]["k_bits"] is None


def test_lengths(tiny, ids):
    result = eval_kv(tiny.hf("gemma3"), ids, "f16,4", "--lengths", "64,512", ctx=0)
    assert result["ctx"] == 512
    rows = [(row["codec"], row["length"], row["rows"]) for row in result["lengths"]]
    assert rows == [("f16", 64, 32), ("f16", 512, 255), ("4", 64, 32), ("4", 512, 255)]
    # Before the last length lies the second half, here the whole of it.
    assert result["lengths"][3]["kld_mean"] == pytest.approx(result["rows"][1]["kld_mean"])


def test_a_cut_work_file_gives_the_same_result(tiny, ids, tmp_path):
    model, work = tiny.hf("gemma3"), tmp_path / "work.jsonl"
    flags = ("--ablate", "--work", work)
    whole = eval_kv(model, ids, "8,4", *flags)
    lines = work.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 2 * (1 + 2 + 8 + 1)  # a reference, codecs, parts, floor; two chunks
    for keep in (1, 4, 9, len(lines) - 1):
        work.write_bytes(b"".join(lines[:keep]) + lines[-1][:40])
        assert quality(eval_kv(model, ids, "8,4", *flags)) == quality(whole), keep
    # Another codec adds to what is there; other tokens start anew.
    more = eval_kv(model, ids, "3,8,4", *flags)
    assert quality(more)["rows"][1:] == quality(whole)["rows"]
    ids.write_text(ids.read_text().replace(" ", ",", 1) + " 5")
    result = subprocess.run([BINARY, "eval", "kv", str(model), "--tokens-file", str(ids), "--codecs",
                             "8", "--ctx", "256", "--work", str(work)], capture_output=True)
    assert result.returncode == 0 and b"starting anew" in result.stderr


def test_interrupted_and_continued(demo, tmp_path):
    text, work = tmp_path / "text.txt", tmp_path / "work.jsonl"
    text.write_text("A ring holds the last words that were said, and lets the older ones go. "
                    "Whoever wants to remember more than that must write it down. " * 60)
    command = ["eval", "kv", str(demo), "--text", str(text), "--codecs", "8,4", "--ctx", "160",
               "--chunks", "3", "--free-run", "8", "--json"]
    whole = json.loads(ok(*command))
    process = subprocess.Popen([BINARY, *command, "--work", str(work)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if work.exists() and work.read_bytes().count(b"\n") > 2:
            process.send_signal(signal.SIGINT)
            break
        time.sleep(0.02)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert b"the same command continues" in stderr
    done = work.read_bytes().count(b"\n")
    assert done < 1 + 3 * 4
    continued = json.loads(ok(*command, "--work", str(work)))
    assert quality(continued) == quality(whole)


class Page(html.parser.HTMLParser):
    VOID = {"meta", "link", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.outside = [], [], []
        self.feed(text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.outside += [v for k, v in attributes if k in ("src", "href", "srcset")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_stands_alone(tiny, ids, tmp_path):
    report = tmp_path / "r.html"
    result = eval_kv(tiny.hf("gemma3"), ids, "f16,8,4", "--ablate", "--lengths", "64,256",
                     "--report", report)
    text = report.read_text()
    page = Page(text)
    assert not page.outside and "script" not in page.tags and "url(" not in text
    assert page.tags.count("svg") == 4 and page.tags.count("figcaption") == 4
    assert text.count("<svg") == text.count("<desc>") and "prefers-color-scheme:dark" in text
    for row in result["rows"]:
        assert f'<th scope="row">{row["codec"]}</th>' in text
    assert "nan" not in text.lower().split("<main>")[1] and "inf" not in text.split("<main>")[1]
    assert not (tmp_path / "r.html.work").exists()


def test_needle(demo, tmp_path):
    report = tmp_path / "n.html"
    command = ("eval", "needle", demo, "--codecs", "f16,8,2", "--ctx", 448, "--depths", "64,256",
               "--facts", 3)
    result = ok_json(*command, "--report", report)
    rows = {(row["codec"], row["depth"]): row for row in result["rows"]}
    assert list(rows) == [(c, d) for c in ("f16", "8", "2") for d in (64, 256)]
    for depth in (64, 256):
        assert rows["f16", depth]["log_prob_delta"] == 0
        assert abs(rows["8", depth]["log_prob_delta"]) < abs(rows["2", depth]["log_prob_delta"])
        # An answer of a dozen tokens that the model can look up is far likelier than a guess.
        assert rows["f16", depth]["log_prob"] > -12
    assert ok_json(*command)["rows"] == result["rows"]
    assert ok_json(*command, "--seed", 2)["rows"] != result["rows"]
    assert Page(report.read_text()).tags.count("svg") == 1


def test_bad_flags(tiny, ids, tmp_path):
    model = tiny.hf("gemma3")
    base = ("eval", "kv", model, "--tokens-file", ids, "--ctx", CTX)
    fails(2, *base, "--codecs", "f16,7", mentions=["7"])
    fails(2, *base, "--only", "recurrent")
    fails(2, "eval", "kv", tiny.hf("llama3"), "--tokens-file", ids, "--ctx", CTX, "--only",
          "sliding", mentions=["--only"])
    fails(2, *base, "--lengths", "64,512", mentions=["--lengths", 512])
    fails(2, *base, "--prompts", 0)
    fails(2, *base, "--work", ids, mentions=["work file"])
    fails(2, "eval", "kv", model, "--ctx", CTX)
    fails(2, *base[:-1], 8, mentions=["--ctx"])
    fails(2, "eval")
    fails(3, *base, "--codecs", "8,4", "--max-kv-size", 16, "--keep", 16,
          mentions=["codec 8", "codec 4"])
    fails(4, *base, "--chunks", 3, mentions=["--chunks", 2])
    fails(4, "eval", "kv", model, "--tokens-file", ids, "--ctx", 1024, mentions=[600, 1024])
    fails(4, "eval", "kv", model, "--tokens-file", tmp_path / "none")
    fails(4, "eval", "needle", model)  # no tokenizer
    assert json.loads(ids.read_text().split()[0]) >= 0  # --work left the file alone
