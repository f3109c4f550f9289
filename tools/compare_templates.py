"""Compares ringkeep's chat templates with jinja2 on the templates of a folder.

    python tools/compare_templates.py build/release/bin/template_render FOLDER [--show N]

Every *.jinja file is rendered with every conversation of template_cases.py by both. Equal: the same
text, or an error in both (and the same message where the template raised it itself).
"""

import argparse
import collections
import difflib
import json
import pathlib
import subprocess
import tempfile

import template_cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the template_render program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--show", type=int, default=5, help="how many differences to print")
    options = parser.parse_args()

    jobs, names, expected = [], [], []
    for path in sorted(options.folder.rglob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for name, context in template_cases.contexts():
            jobs.append({"template": source, "context": context})
            names.append((path.name, name))
            expected.append(template_cases.render(source, context))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(jobs, file)
        file.flush()
        output = subprocess.run([options.program, file.name], check=True, capture_output=True, text=True).stdout
    results = [json.loads(line) for line in output.splitlines()]
    assert len(results) == len(jobs), f"{len(results)} results for {len(jobs)} jobs"

    counts, shown, differing = collections.Counter(), 0, set()
    for (template, name), (kind, want), got in zip(names, expected, results):
        if kind == "text":
            same = got.get("text") == want
        elif kind == "raised":
            same = got.get("error") == want
        else:
            same = "error" in got
        counts[kind if same else "different"] += 1
        if same:
            continue
        differing.add(template)
        if shown < options.show:
            shown += 1
            print(f"--- {template} x {name}: jinja2 gives {kind}")
            have = got.get("text", got.get("error"))
            print("\n".join(list(difflib.unified_diff(want.splitlines(), have.splitlines(), "jinja2", "ringkeep",
                                                      lineterm="", n=1))[:30]))
    templates = len({template for template, _ in names})
    print(f"{templates} templates x {len(jobs) // max(templates, 1)} conversations: {len(jobs)} renderings, "
          f"{len(jobs) - counts['different']} equal "
          f"({counts['text']} texts, {counts['raised']} raised by the template, {counts['error']} other errors), "
          f"{counts['different']} different in {len(differing)} templates {sorted(differing)}")
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
