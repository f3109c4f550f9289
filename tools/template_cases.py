"""Conversations for chat templates, and how Hugging Face renders a template (the oracle)."""

import warnings

warnings.filterwarnings("ignore")

from transformers.utils import chat_template_utils

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a place. Includes \"wind\" & <rain>.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "City, e.g. Zürich 🌦"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "default": 1, "minimum": 0},
                "where": {
                    "type": "object",
                    "properties": {"lat": {"type": "number"}, "lon": {"type": ["number", "null"]}},
                    "required": ["lat"],
                },
                "tags": {"type": "array", "items": {"type": "string"}, "nullable": True},
            },
            "required": ["place"],
        },
        "return": {"type": "string", "description": "a sentence"},
    },
}
CLOCK = {
    "type": "function",
    "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}},
}

SYSTEM = {"role": "system", "content": "You are terse."}
HELLO = {"role": "user", "content": "Hello <there> & 'you' \"all\""}
REPLY = {"role": "assistant", "content": "Hi.\n"}
MORE = {"role": "user", "content": "  Say: ünï → 🙂 日本語\n\nnext line  "}


def call(name, arguments, ident="abcdef123"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


TOOL_CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [call("get_weather", {"place": "Zürich", "days": 2, "where": {"lat": 47.4, "lon": None}, "ok": True})],
}
TOOL_RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef123", "content": "{\"temp\": 21.5}"}
THINKING = {
    "role": "assistant",
    "content": "<think>\nfirst\n</think>\n\nSecond.",
    "reasoning_content": "I thought.",
    "thinking": "I thought.",
}

CONVERSATIONS = {
    "plain": [HELLO],
    "system": [SYSTEM, HELLO],
    "developer": [{"role": "developer", "content": "Be kind."}, HELLO],
    "turns": [SYSTEM, HELLO, REPLY, MORE],
    "no_system_turns": [HELLO, REPLY, MORE, {"role": "assistant", "content": "Done: {x} {{y}} {% z %}"}],
    "empty": [SYSTEM, {"role": "user", "content": ""}],
    "empty_reply": [HELLO, {"role": "assistant", "content": ""}, MORE],
    "not_alternating": [HELLO, MORE],
    "starts_with_assistant": [REPLY, HELLO],
    "unknown_role": [{"role": "critic", "content": "Hm."}],
    "text_parts": [
        {"role": "system", "content": [{"type": "text", "text": "You are terse."}]},
        {"role": "user", "content": [{"type": "text", "text": "A "}, {"type": "text", "text": " B"}]},
    ],
    "image": [
        SYSTEM,
        {"role": "user", "content": [{"type": "image", "image": "x.png"}, {"type": "text", "text": "What is this? "}]},
        {"role": "assistant", "content": [{"type": "text", "text": " A cat. "}]},
        HELLO,
    ],
    "image_url": [
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "x"}}]}
    ],
    "thinking": [HELLO, THINKING, MORE],
    "thinking_last": [SYSTEM, HELLO, THINKING],
    "tool_call": [SYSTEM, HELLO, TOOL_CALL],
    "tool_result": [SYSTEM, HELLO, TOOL_CALL, TOOL_RESULT],
    "tool_finished": [HELLO, TOOL_CALL, TOOL_RESULT, {"role": "assistant", "content": "21.5 degrees."}, MORE],
    "tool_twice": [
        HELLO,
        {"role": "assistant", "content": "Let me see.", "tool_calls": [call("get_weather", {"place": "Bern"}, "aaaaaaaaa"), call("now", {}, "bbbbbbbbb")]},
        {"role": "tool", "name": "get_weather", "tool_call_id": "aaaaaaaaa", "content": "rain"},
        {"role": "tool", "name": "now", "tool_call_id": "bbbbbbbbb", "content": "12:00"},
        {"role": "assistant", "content": "Rain at noon.", "reasoning_content": "Combine."},
        {"role": "user", "content": "Thanks"},
    ],
    "tool_arguments_text": [
        HELLO,
        {"role": "assistant", "tool_calls": [call("now", "{\"a\": 1}")]},
        TOOL_RESULT,
    ],
    "content_null": [HELLO, {"role": "assistant", "content": None, "tool_calls": [call("now", {})]}, TOOL_RESULT],
}


def contexts():
    """name -> the variables of one rendering."""
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    for name, messages in CONVERSATIONS.items():
        base = {"messages": messages, "tools": None, "documents": None}
        for prompt in (False, True):
            yield f"{name}/{'prompt' if prompt else 'closed'}", {**base, "add_generation_prompt": prompt, **special}
        if name in ("plain", "turns", "thinking", "tool_finished"):
            for thinking in (False, True):
                yield f"{name}/thinking={thinking}", {**base, "add_generation_prompt": True, "enable_thinking": thinking,
                                                      "thinking": thinking, **special}
        if name in ("plain", "system", "turns") or "tool" in name:
            yield f"{name}/tools", {**base, "tools": [WEATHER, CLOCK], "add_generation_prompt": True, **special}
    # The keys that engines leave out, and options that some templates know.
    yield "bare", {"messages": [HELLO]}
    yield "options", {"messages": [SYSTEM, HELLO, REPLY, MORE], "tools": [CLOCK], "add_generation_prompt": True,
                      "date_string": "26 Jul 2024", "tools_in_user_message": False, "reasoning_effort": "high",
                      "builtin_tools": ["browser", "python"], "model_identity": "I am Ring.",
                      "documents": [{"title": "T", "text": "Body", "doc_id": 1}], **special}


def render(source, context):
    """("text", str), ("raised", message of raise_exception) or ("error", message)."""
    import jinja2

    try:
        template = chat_template_utils._compile_jinja_template(source)
        return "text", template.render(**context)
    except jinja2.exceptions.TemplateError as error:
        kind = "raised" if type(error) is jinja2.exceptions.TemplateError else "error"
        return kind, str(error)
    except Exception as error:  # what Python itself raises inside a template
        return "error", f"{type(error).__name__}: {error}"
