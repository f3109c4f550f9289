"""Adapters behind the server: requests choose them, together in one batch; and nothing else is loaded."""

import concurrent.futures

import openai
import pytest

from chat_model import write_chat_model
from ringkeep_cli import fails
from serving import Server
from tiny_adapters import AdapterSpec, write_peft
from tiny_specs import SPECS, TinySpec

USER = {"role": "user", "content": "Say something, please."}


@pytest.fixture(scope="module")
def folders(tmp_path_factory, chat_model):
    import json

    config = json.loads((chat_model / "config.json").read_text())
    SPECS["chat"] = TinySpec("chat", config, 51)
    folder = tmp_path_factory.mktemp("served")
    made = {name: write_peft(folder / f"{name}-folder", AdapterSpec(name, "chat", rank=rank, seed=seed, gain=1.5))
            for name, rank, seed in [("pirate", 4, 91), ("poet", 9, 92)]}
    del SPECS["chat"]
    return made


@pytest.fixture(scope="module")
def served(chat_model, folders):
    with Server(chat_model, "--ctx", 2048, "--parallel", 6, "--threads", 1, "--served-model-name", "base",
                "--adapter", f"pirate={folders['pirate']}",
                "--adapter", f"poet={folders['poet']}=0.75") as running:
        yield running


def alone(model, *flags):
    """The reply of a server that has nothing else, and no cache of earlier requests."""
    with Server(model, "--ctx", 2048, "--parallel", 1, "--threads", 1, *flags) as running:
        return text_of(running.chat(USER, max_tokens=24, ignore_eos=True, return_token_ids=True))


def text_of(reply):
    return reply["choices"][0]["token_ids"]


def ask(server, **fields):
    return server.chat(USER, max_tokens=24, ignore_eos=True, return_token_ids=True, **fields)


@pytest.fixture(scope="module")
def expected(chat_model, folders):
    replies = {"base": alone(chat_model),
               "pirate": alone(chat_model, "--adapter", folders["pirate"]),
               "poet": alone(chat_model, "--lora", f"{folders['poet']}=0.75")}
    assert len(set(map(tuple, replies.values()))) == 3
    return replies


def test_models_are_listed(served, folders):
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none")
    models = {model.id: model for model in client.models.list()}
    assert list(models) == ["base", "pirate", "poet"]
    assert models["base"].parent is None and models["base"].root == "base"
    for i, name in enumerate(("pirate", "poet")):
        assert models[name].parent == "base"
        assert models[name].root == folders[name].name
        assert models[name].meta["lora"]["id"] == i
        assert client.models.retrieve(name).id == name
        assert str(folders[name].parent) not in models[name].model_dump_json()


def test_requests_choose_by_model(served, expected):
    for name in ("pirate", "base", "poet", "pirate", "base"):
        reply = ask(served, model=name)
        assert text_of(reply) == expected[name]
        assert reply["model"] == name
    assert text_of(ask(served)) == expected["base"]
    prints = {name: ask(served, model=name)["system_fingerprint"] for name in expected}
    assert len(set(prints.values())) == 3


def test_many_at_once(served, expected):
    """Twenty clients of OpenAI's package, a model each, streamed; every reply as if alone."""
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0)

    def one(i):
        name = ("base", "pirate", "poet")[i % 3]
        stream = client.chat.completions.create(
            model=name, messages=[USER], max_tokens=24, temperature=0, stream=True,
            extra_body={"ignore_eos": True, "return_token_ids": True, "cache_prompt": i % 2 == 0})
        ids = []
        for chunk in stream:
            assert chunk.model == name
            for choice in chunk.choices:
                ids += (choice.model_extra or {}).get("token_ids") or []
        return name, ids
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        for name, ids in pool.map(one, range(20)):
            assert ids == expected[name], name


def test_prefixes_are_not_shared(served):
    """What is cached for one is no beginning for another."""
    prompt = "A beginning that nobody has sent before. " * 8
    ask_for = lambda name: served.complete(prompt, model=name, max_tokens=2)["usage"]["prompt_tokens_details"]["cached_tokens"]
    for name in ("pirate", "base", "poet"):
        assert ask_for(name) <= 1  # BOS is there from other tests
        assert ask_for(name) > 200


def test_fields_of_other_programs(served, folders, expected):
    assert text_of(ask(served, adapters="pirate")) == expected["pirate"]
    assert text_of(ask(served, adapters=str(folders["pirate"]))) == expected["pirate"]
    assert text_of(ask(served, model="pirate", adapters="pirate")) == expected["pirate"]
    assert text_of(ask(served, lora=[{"id": 1, "scale": 0.75}])) == expected["poet"]
    assert text_of(ask(served, lora=[{"id": 0, "scale": 0}, {"id": 1, "scale": 0.75}])) == expected["poet"]
    assert text_of(ask(served, lora=[])) == expected["base"]
    assert text_of(ask(served, lora=[{"id": 0, "scale": 0}])) == expected["base"]
    assert ask(served, adapters="poet")["model"] == "poet"


@pytest.mark.parametrize("fields,param", [
    ({"adapters": "other"}, "adapters"), ({"adapters": "/etc"}, "adapters"), ({"adapters": 3}, "adapters"),
    ({"adapters": "pirate", "model": "poet"}, "adapters"),
    ({"lora": [{"id": 2, "scale": 1}]}, "lora"), ({"lora": [{"id": -1, "scale": 1}]}, "lora[0].id"),
    ({"lora": [{"id": 1, "scale": 1}]}, "lora"), ({"lora": [{"id": 0}]}, "lora[0].scale"),
    ({"lora": [{"id": 0, "scale": 1}, {"id": 1, "scale": 0.75}]}, "lora"),
    ({"lora": [{"id": 0, "scale": 1, "path": "x"}]}, "lora[0].path"), ({"lora": "x"}, "lora"),
    ({"lora": [3]}, "lora[0]"), ({"lora": [], "model": "pirate"}, "lora")])
def test_refused(served, fields, param):
    error = served.refused("/v1/chat/completions", {"messages": [USER], **fields})
    assert error["param"] == param and error["message"].startswith(param), error


def test_unknown_model(served):
    served.refused("/v1/chat/completions", {"messages": [USER], "model": "pirates"}, status=404)
    assert served.get("/v1/models/pirates").status == 404
    assert served.post("/tokenize", {"content": "x", "model": "poet"}).status == 200


def test_one_for_every_request(chat_model, folders, expected):
    """Without a name it is for all that choose nothing; `lora` switches it off."""
    with Server(chat_model, "--ctx", 2048, "--threads", 1, "--adapter-path", folders["pirate"],
                "--adapter", f"poet={folders['poet']}=0.75") as server:
        assert text_of(ask(server)) == expected["pirate"]
        assert text_of(ask(server, model=chat_model.name)) == expected["pirate"]
        assert text_of(ask(server, model="poet")) == expected["poet"]
        assert text_of(ask(server, lora=[])) == expected["base"]
        assert text_of(ask(server, model=folders["pirate"].name)) == expected["pirate"]


def test_refused_at_the_start(chat_model, folders, tmp_path):
    serve = lambda *flags: ("serve", chat_model, "--port", 0, *flags)
    fails(2, *serve("--served-model-name", "poet", "--adapter", f"poet={folders['poet']}"),
          mentions=["poet", "name of the model"])
    fails(2, *serve("--adapter", folders["poet"], "--adapter", folders["pirate"]), mentions=["NAME=PATH"])
    fails(4, *serve("--adapter", f"x={tmp_path}"), mentions=[tmp_path, "adapter_config.json"])
