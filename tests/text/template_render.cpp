// Renders templates for tools/compare_templates.py: reads a JSON array of
// {"template": source, "context": {...}} and writes one JSON line {"text": ...} or {"error": ...}
// each.
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "text/chat_template.h"

int main(int argc, char** argv) {
  using Json = nlohmann::ordered_json;
  if (argc != 2) {
    std::cerr << "usage: template_render JOBS.json\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const Json jobs = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!jobs.is_array()) {
    std::cerr << argv[1] << ": expected a JSON array\n";
    return 4;
  }
  for (const Json& job : jobs) {
    const auto parsed = ringkeep::text::ChatTemplate::parse(job.at("template").get<std::string>());
    Json line;
    if (!parsed) {
      line["error"] = parsed.error().message;
    } else if (const auto rendered = parsed->render(job.at("context")); rendered) {
      line["text"] = *rendered;
    } else {
      line["error"] = rendered.error().message;
    }
    std::cout << line.dump() << "\n";
  }
}
