// A grammar's source of any kind and a text: an error or a matcher that reads, masks and never gets
// stuck; never a crash or a hang. The first byte chooses the front end (g, r, x and m for arguments
// of tool calls, or JSON schema), and what follows a 0 byte chooses the tokens.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/tool_arguments.h"

using namespace ringkeep::grammar;

namespace {

std::shared_ptr<const TokenTrie> small_trie() {
  std::vector<TokenTrie::Token> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back({std::string(1, static_cast<char>(byte))});
  for (const char* text : {"\"", "\",", "{\"", "\":", "}}", "ab", "abc", "12", "true", "\xC3\xA9",
                           "\xE2\x82", "aaaaaaaaaaaaaaaa"})
    tokens.push_back({text});
  tokens.push_back({"", TokenTrie::Token::Kind::end});
  return TokenTrie::build(tokens);
}

void read(const GrammarPtr& grammar, std::string_view text) {
  static const auto trie = small_trie();
  Matcher matcher(grammar, trie);
  std::vector<uint64_t> allowed(trie->words());
  uint64_t choice = text.size();
  for (size_t step = 0; step < 24; ++step) {
    std::fill(allowed.begin(), allowed.end(), ~uint64_t{0});
    if (!matcher.mask(allowed)) return;  // too much work
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < trie->size(); ++i)
      if ((allowed[static_cast<size_t>(i) / 64] >> (i % 64) & 1) != 0) tokens.push_back(i);
    if (tokens.empty()) std::abort();  // stuck
    const auto byte = step < text.size() ? static_cast<uint8_t>(text[step]) : 0;
    choice = choice * 6364136223846793005u + byte + 1;
    const int32_t token = tokens[(choice >> 33) % tokens.size()];
    if (token + 1 == trie->size()) {
      if (!matcher.may_end()) std::abort();
      return;
    }
    const auto accepted = matcher.accept(token);
    if (!accepted && accepted.error().kind == ringkeep::ErrorKind::usage) return;
    if (!accepted) std::abort();  // allowed and then refused
  }
}

// The schema of a tool's parameters, in the formats that are not JSON.
ringkeep::Result<GrammarPtr> arguments(std::string_view schema, bool xml) {
  using Json = nlohmann::ordered_json;
  const Json parameters = Json::parse(schema, nullptr, /*allow_exceptions=*/false);
  if (parameters.is_discarded()) return Grammar::from_json_schema(schema);
  const ArgumentFormat format = {
      .kind = xml ? ArgumentFormat::Kind::xml : ArgumentFormat::Kind::marked,
      .string_mark = "<m>",
      .parameter_begin = "<p=",
      .parameter_name_end = ">\n",
      .parameter_end = "\n</p>\n"};
  return tool_arguments(parameters, format);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string_view source = input.substr(0, end);
  const std::string_view text = input.substr(std::min(end + 1, input.size()));
  const auto grammar = data[0] == 'g'   ? Grammar::from_gbnf(source)
                       : data[0] == 'r' ? Grammar::from_regex(source)
                       : data[0] == 'x' ? arguments(source, /*xml=*/true)
                       : data[0] == 'm' ? arguments(source, /*xml=*/false)
                                        : Grammar::from_json_schema(source);
  if (grammar) {
    read(*grammar, text);
    (void)accepts(*grammar, text);
  }
  return 0;
}
