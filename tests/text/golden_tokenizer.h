// TokenizerData from the tokenizer.json goldens.
#pragma once

#include <array>
#include <set>

#include "config/tokenizer_data.h"
#include "text/golden.h"

namespace ringkeep::text {

// GPT-2's alphabet undone: printable Latin-1 is itself, the other bytes follow from U+0100.
inline std::string raw_bytes(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = static_cast<uint8_t>(text[i]);
    if (code >= 0xC0) code = (code & 0x1F) << 6 | (static_cast<uint8_t>(text[++i]) & 0x3F);
    int byte = code;
    for (int b = 0, next = 0x100; b < 256; ++b) {
      const bool itself = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      if (!itself && next++ == code) byte = b;
    }
    out += static_cast<char>(byte);
  }
  return out;
}

inline TokenizerData golden_tokenizer(const std::string& name) {
  const Json file = golden("tokenizer_" + name + ".json");
  const Json& model = file["model"];
  const bool spm = model["byte_fallback"];
  const auto raw = [&](const std::string& text) { return spm ? text : raw_bytes(text); };
  TokenizerData data;
  data.kind = spm ? TokenizerData::Kind::spm_bpe : TokenizerData::Kind::byte_bpe;
  const size_t vocab = model["vocab"].size();
  data.pieces.resize(vocab);
  data.types.resize(vocab, TokenType::normal);
  for (const auto& [piece, id] : model["vocab"].items()) {
    data.pieces[id] = raw(piece);
    if (spm && piece.size() == 6 && piece.starts_with("<0x")) data.types[id] = TokenType::byte;
  }
  for (const Json& token : file["added_tokens"]) {
    const size_t id = token["id"];
    data.pieces.resize(std::max(data.pieces.size(), id + 1));
    data.types.resize(data.pieces.size());
    data.pieces[id] = token["content"];
    data.types[id] = token["special"] ? TokenType::control : TokenType::user_defined;
    if (token["content"] == "<unk>") data.unk = static_cast<int32_t>(id);
  }
  for (const Json& merge : model["merges"]) data.merges.emplace_back(raw(merge[0]), raw(merge[1]));
  data.ignore_merges = model["ignore_merges"];
  data.byte_fallback = spm;
  data.add_space_prefix = name == "llama-2";
  data.nfc = name == "qwen2";
  data.pre = name;
  return data;
}

}  // namespace ringkeep::text
