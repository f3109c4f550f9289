"""Servers that several tests share, and the models they serve."""

import pytest

from chat_model import write_chat_model
from serving import Server


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("server") / "tinychat")


@pytest.fixture(scope="session")
def plain_model(tmp_path_factory):
    """Without a chat template."""
    return write_chat_model(tmp_path_factory.mktemp("server") / "plain", template=None)


@pytest.fixture(scope="module")
def server(chat_model):
    with Server(chat_model, "--ctx", 2048, "--parallel", 4, "--threads", 1) as running:
        yield running


@pytest.fixture(scope="module")
def slow_server(chat_model):
    """So slow that a reply can be watched."""
    with Server(chat_model, "--ctx", 2048, "--parallel", 2, "--threads", 1, fault="slow:25") as running:
        yield running


@pytest.fixture(scope="session")
def demo_server(demo):
    """The demo model with Gemma's turns around its messages."""
    with Server(demo, "--ctx", 4096, "--parallel", 4, "--chat-template", "gemma", "--kv-bits", 8,
                "--served-model-name", "demo") as running:
        yield running
