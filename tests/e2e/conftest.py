"""Fixtures: tiny checkpoints written once a session, and the demo model."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
pytest.register_assert_rewrite("browser", "converting", "ringkeep_cli", "serving")  # both sides are told

import make_tiny_model
import tiny_gguf
import tiny_moe
from tiny_specs import SPECS


class TinyModels:
    """Writes a tiny checkpoint on first use and returns its path afterwards."""

    def __init__(self, folder):
        self.folder = folder
        self.gguf_weights = {}

    def hf(self, name, shards=1):
        path = self.folder / f"{name}-hf-{shards}"
        if not path.exists():
            spec = SPECS[name]
            make_tiny_model.write_hf(path, make_tiny_model.make_tensors(spec), spec.config, shards)
        return path

    def mlx(self, name, bits, group, tag="", **options):
        path = self.folder / f"{name}-mlx-{bits}-{group}{tag}"
        if not path.exists():
            spec = SPECS[name]
            tensors = tiny_moe.stacked(spec.config, make_tiny_model.make_tensors(spec))
            make_tiny_model.write_mlx(path, tensors, spec.config, bits, group, **options)
        return path

    def gguf(self, name, kind, splits=0):
        path = self.folder / f"{name}-{kind}-{splits}.gguf"
        if path not in self.gguf_weights:
            spec = SPECS[name]
            self.gguf_weights[path] = tiny_gguf.write_gguf(
                path, spec, make_tiny_model.make_tensors(spec), kind, splits)
        if splits:
            return sorted(self.folder.glob(f"{path.stem}-00001-of-*.gguf"))[0]
        return path


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    return TinyModels(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def demo():
    """The demo model's file; scripts/get-demo-model puts it there."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    path = cache / "ringkeep" / "gemma-3-270m-q4_k_m.gguf"
    if not path.exists():
        pytest.fail(f"{path} is missing: run scripts/get-demo-model")
    return path


from browser import chromium  # noqa: E402,F401
from server_fixtures import chat_model, demo_server, plain_model, server, slow_server  # noqa: E402,F401
