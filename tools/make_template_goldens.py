"""Writes tests/golden/templates/*.json: what jinja2 renders, the oracle of chat_template_test.cpp.

    python tools/make_template_goldens.py

contexts.json holds the variables of every conversation, NAME.json the renderings of NAME.jinja with
them, and snippets.json those of the lines of snippets.txt (one template a line) with one conversation.
"""

import json
import pathlib

import jinja2
import template_cases
import transformers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "templates"

SNIPPET_CONTEXT = {
    "messages": template_cases.CONVERSATIONS["tool_finished"],
    "tools": [template_cases.WEATHER, template_cases.CLOCK],
    "s": "  Hello, wörld 🙂\n\tthe 'end' \"x\"  ",
    "words": ["pear", "Apple", "fig", "apple", "Fig"],
    "numbers": [3, 1, 2, -7, 2],
    "people": [{"name": "Bo", "age": 3, "tags": ["x"]}, {"name": "al", "age": 41}, {"name": "Cy", "age": 3}],
    "d": {"b": 1, "a": {"x": [1, 2.5, None, True]}, "C": "z", "items": "shadow"},
    "big": 1e20, "tiny": 1.5e-7, "half": 2.5, "n": -7, "no": None, "yes": True, "empty": "", "html": "<a href='x'>&</a>",
}


def result(source, context):
    kind, text = template_cases.render(source, context)
    if kind == "text":
        return {"text": text}
    return {"raised": text} if kind == "raised" else {"error": text}


def write(name, value):
    (FOLDER / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main():
    made_by = f"jinja2 {jinja2.__version__}, transformers {transformers.__version__}"
    contexts = dict(template_cases.contexts())
    write("contexts.json", contexts)
    for path in sorted(FOLDER.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        write(path.stem + ".json", {"made_by": made_by, "results": {n: result(source, c) for n, c in contexts.items()}})
    lines = [line for line in (FOLDER / "snippets.txt").read_text(encoding="utf-8").split("\n") if line]
    write("snippets.json", {"made_by": made_by, "context": SNIPPET_CONTEXT,
                            "results": [{"template": line, **result(line, SNIPPET_CONTEXT)} for line in lines]})


if __name__ == "__main__":
    main()
