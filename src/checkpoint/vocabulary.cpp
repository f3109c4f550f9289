#include "checkpoint/vocabulary.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

namespace ringkeep::checkpoint {

namespace {

// code point -> byte. Printable Latin-1 stands for itself; the other 68 bytes, in order, are the
// code points from U+0100.
constexpr int kAlphabetEnd = 0x100 + 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
         (byte >= 0xae && byte <= 0xff);
}

constexpr std::array<int16_t, kAlphabetEnd> kByteOf = [] {
  std::array<int16_t, kAlphabetEnd> table{};
  table.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    table[static_cast<size_t>(stands_for_itself(byte) ? byte : next++)] =
        static_cast<int16_t>(byte);
  return table;
}();

constexpr std::string_view kEndNames[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>",       "<|return|>",      "<|call|>",
    "<|flush|>",  "<|calls|>",  "<end_of_turn>", "<turn|>",         "<|endoftext|>",
    "<|eom_id|>", "<EOT>",      "_<EOT>",        "<|end_of_text|>", "<end_of_utterance>",
};

}  // namespace

bool undo_byte_alphabet(std::string_view text, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    int code = lead;
    if (lead >= 0x80) {  // the alphabet ends below U+0800: two bytes at most
      if (lead < 0xc2 || lead > 0xdf || i + 1 == text.size()) return false;
      const auto next = static_cast<unsigned char>(text[++i]);
      if ((next & 0xc0) != 0x80) return false;
      code = (lead & 0x1f) << 6 | (next & 0x3f);
    }
    if (code >= kAlphabetEnd || kByteOf[static_cast<size_t>(code)] < 0) return false;
    out += static_cast<char>(kByteOf[static_cast<size_t>(code)]);
  }
  return true;
}

std::string raw_bytes(std::string_view text) {
  std::string result;
  return undo_byte_alphabet(text, result) ? result : std::string(text);
}

void collect_end_of_generation(TokenizerData& data) {
  auto& ends = data.end_of_generation;
  if (data.eos >= 0) ends.push_back(data.eos);
  int32_t harmony_return = -1;
  int32_t harmony_end = -1;
  for (size_t id = 0; id < data.pieces.size(); ++id) {
    const std::string& piece = data.pieces[id];
    if (piece.size() < 5 || (piece[0] != '<' && piece[0] != '_')) continue;
    if (std::find(std::begin(kEndNames), std::end(kEndNames), piece) == std::end(kEndNames))
      continue;
    if (piece == "<|return|>") harmony_return = static_cast<int32_t>(id);
    if (piece == "<|end|>") harmony_end = static_cast<int32_t>(id);
    ends.push_back(static_cast<int32_t>(id));
  }
  // GPT-OSS ends each message of a reply with <|end|>; only <|return|> and <|call|> end the reply.
  if (harmony_return >= 0 && harmony_end >= 0) std::erase(ends, harmony_end);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (const int32_t id : ends) data.types[static_cast<size_t>(id)] = TokenType::control;
}

bool pre_ignores_merges(std::string_view pre) {
  return pre == "llama3" || pre == "llama-v3" || pre == "llama-bpe" || pre == "falcon3" ||
         pre == "falcon-h1" || pre == "pixtral" || pre == "midm-2.0" || pre == "lfm2" ||
         pre == "tekken";
}

bool pre_adds_bos(std::string_view pre) { return pre_ignores_merges(pre); }

}  // namespace ringkeep::checkpoint
