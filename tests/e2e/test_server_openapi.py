"""/openapi.json against the server, by schemathesis: what it forbids is refused with an error in
JSON, nothing is a server error, and answers look as it says."""

import json
import subprocess
import sys

CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_schema_conformance", "negative_data_rejection", "unsupported_method",
          "ignored_auth"]


def test_the_description_holds(server, tmp_path):
    report = tmp_path / "report.json"
    result = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json",
         "--checks", ",".join(CHECKS), "--phases", "examples,coverage,fuzzing", "--mode", "all",
         "--max-examples", "850", "--seed", "1", "--workers", "1", "--no-color",
         "--generation-database", "none", "--request-timeout", "30", "--no-shrink",
         "--report-json-path", str(report)],
        cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    assert "operations" in result.stdout.lower()
    assert server.get("/health").status == 200


def test_it_is_valid_and_complete(server):
    """Every route of the API is described, in OpenAPI 3.1; requests say what is required."""
    described = server.get("/openapi.json").json
    assert described["openapi"].startswith("3.1")
    assert set(described["paths"]) == {
        "/v1/chat/completions", "/v1/completions", "/v1/models", "/v1/models/{id}", "/tokenize",
        "/detokenize", "/health", "/metrics", "/kv", "/openapi.json"}
    schemas = described["components"]["schemas"]
    assert schemas["ChatRequest"]["required"] == ["messages"]
    assert schemas["ChatRequest"]["additionalProperties"] is False
    assert schemas["CompletionRequest"]["required"] == ["prompt"]
    chat, completion = (schemas[f"{name}Request"]["properties"] for name in ("Chat", "Completion"))
    assert (chat["temperature"]["default"], chat["stream"]["default"]) == (1, False)
    assert (chat["max_tokens"]["default"], completion["max_tokens"]["default"]) == (-1, 16)
    assert "default" not in completion["logprobs"]
    assert json.dumps(described).count('"$ref"') > 10
