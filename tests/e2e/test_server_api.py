"""The API as its users see it, through OpenAI's own client."""

import openai
import pytest

from chat_model import USER


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


def collect(stream):
    """(text by choice, finish reasons, usage, chunks) of a streamed chat."""
    text, finish, usage, chunks = {}, {}, None, []
    for chunk in stream:
        chunks.append(chunk)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text[choice.index] = text.get(choice.index, "") + (choice.delta.content or "")
            if choice.finish_reason:
                finish[choice.index] = choice.finish_reason
    return text, finish, usage, chunks


def test_models(client, server, model):
    assert model == "tinychat"
    assert client.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError) as error:
        client.models.retrieve("other")
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-4", messages=[USER])
    assert error.value.param == "model"


def test_chat_streamed_and_not_say_the_same(client, model):
    asked = dict(model=model, messages=[USER], temperature=0, max_tokens=24)
    whole = client.chat.completions.create(**asked)
    choice = whole.choices[0]
    assert whole.object == "chat.completion" and whole.id.startswith("chatcmpl-")
    assert choice.message.role == "assistant"
    assert whole.usage.completion_tokens == 24 and choice.finish_reason == "length"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + 24
    assert whole.system_fingerprint.startswith("rk_")
    text, finish, usage, chunks = collect(client.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}))
    assert text == {0: choice.message.content} and finish == {0: "length"}
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(chunk.object == "chat.completion.chunk" for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == [] and usage.completion_tokens == 24
    # The same prompt again: what was cached is told.
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"include_usage": None}])
def test_no_usage_in_the_stream_unless_asked_for(server, options):
    body = {"messages": [USER], "max_tokens": 2}
    if options is not None:
        body["stream_options"] = options
    events = server.stream("/v1/chat/completions", body)
    assert all("usage" not in event for event in events)
    assert all(event["choices"] for event in events)


def test_stream_options_without_a_stream(server):
    server.chat(USER, max_tokens=1, stream_options={"include_usage": True})


def test_completions_of_every_prompt_form(client, server, model):
    """A text, texts, ids, arrays of ids; results do not depend on the company."""
    ask = lambda prompt, **more: client.completions.create(model=model, prompt=prompt, temperature=0,
                                                           max_tokens=8, **more)
    ids = server.post("/tokenize", {"content": "One ring"}).json["tokens"]
    assert ids == [256, *b"One ring"]
    text = ask("One ring").choices[0].text
    assert ask(ids).choices[0].text == text
    both = ask(["One ring", "Two rings"]).choices
    assert [choice.index for choice in both] == [0, 1]
    assert both[0].text == text and both[1].text == ask("Two rings").choices[0].text
    assert [choice.text for choice in ask([ids, ids]).choices] == [text, text]
    echoed = ask("One ring", echo=True).choices[0].text
    assert echoed == "One ring" + text
    streamed = [choice.text for chunk in ask("One ring", stream=True, echo=True)
                for choice in chunk.choices]
    assert "".join(streamed) == echoed
