"""`run` on a terminal: a chat, and where its notes stand."""

import os
import pty
import re
import subprocess
import termios

from ringkeep_cli import BINARY, ok


def on_terminal(*arguments, lines=""):
    """What a terminal shows of a run whose lines are typed at once, without their echo."""
    ours, theirs = pty.openpty()
    mode = termios.tcgetattr(theirs)
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    process = subprocess.Popen([BINARY, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, lines.encode() + b"\x04")
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # Linux's way to say that the other end is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0, shown
    text = shown.decode().replace("\r\x1b[K", "\n")  # a progress bar that goes
    return text.replace("\r", "")


def test_commands_of_a_chat(plain_model):
    """Words behind a slash never go to the model, a path or a blank before the slash does."""
    flags = ("run", plain_model, "-n", 2, "--temp", 0)
    shown = on_terminal(*flags, lines="/help\n/foo\n/bar x\n/exit\n")
    assert "tok/s" not in shown
    assert shown.count("/clear starts anew") == 4  # at the start, and for each
    assert "there is no command /foo:" in shown and "there is no command /bar:" in shown
    assert on_terminal(*flags, lines="/usr/bin is\n /foo\n/quit\n").count("tok/s") == 4


def test_a_chat_draws_its_seed(plain_model):
    """Two chats, and two replies to the same line, differ unless --seed is given."""
    flags = ("run", plain_model, "-n", 12, "--temp", 1, "--top-k", 0, "--top-p", 1, "--min-p", 0, "--ignore-eos")
    chat = lambda *more: [text for text in on_terminal(*flags, *more, lines="abc\nabc\n").split("> ")[1:] if text.strip()]
    text_of = lambda reply: reply.split("\nprompt ")[0]
    first, second = map(text_of, chat())
    assert first != second
    assert text_of(chat()[0]) != first
    assert list(map(text_of, chat("--seed", 5))) == list(map(text_of, chat("--seed", 5)))
    seeds = [re.search(r"seed (\d+)", on_terminal(*flags, "-v", lines="")).group(1) for _ in range(2)]
    assert seeds[0] != seeds[1]


def test_a_note_on_the_cache_has_a_line_of_its_own(plain_model, tmp_path):
    """Before the reply."""
    cache = tmp_path / "talk.cache"
    ok("run", plain_model, "--raw", "-p", "abcd", "-n", 4, "--prompt-cache-file", cache)
    shown = on_terminal("run", plain_model, "--raw", "-p", "abxy", "-n", 4, "--prompt-cache-file", cache)
    note, = [line for line in shown.splitlines() if "talk.cache: reused" in line]
    assert note.startswith(str(cache))
    assert re.fullmatch(r"\n(.|\n)*\nprompt 5 tokens .*\n", shown.split(note)[1])
