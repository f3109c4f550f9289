// Byte-level BPE (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"): the
// text is split into pre-tokens, and the bytes of each merge by rank.
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "text/bpe_merge.h"
#include "text/encoder.h"
#include "text/merge_table.h"
#include "text/pretokenize.h"
#include "text/utf8.h"

namespace ringkeep::text {
namespace {

// NFC of well-formed UTF-8. ASCII is its own NFC.
std::string to_nfc(std::string_view text) {
  const auto ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  if (std::all_of(text.begin(), text.end(), ascii)) return std::string(text);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string out = size < 0 ? std::string(text)  // no memory, or more than 2^31 characters
                             : std::string(reinterpret_cast<const char*>(mapped), size);
  std::free(mapped);
  return out;
}

class ByteBpe final : public Encoder {
 public:
  ByteBpe(const Vocabulary& vocabulary, MergeTable merges, PreTokenizer pre)
      : vocabulary_(vocabulary), merges_(std::move(merges)), pre_(std::move(pre)) {}

  void encode(std::string_view text, bool, std::vector<int32_t>& out) const override {
    BpeMerger merger;
    while (!text.empty()) {
      const size_t valid = utf8_valid_prefix(text);
      if (valid > 0) encode_valid(text.substr(0, valid), merger, out);
      text.remove_prefix(valid);
      size_t bad = 0;  // bytes of no character: a pre-token of their own, never merged
      while (bad < text.size()) {
        const Utf8Step step = utf8_step(text.substr(bad));
        if (step.kind == Utf8Step::Kind::valid) break;
        bad += step.size;
      }
      for (const char c : text.substr(0, bad)) emit(byte_id(c), out);
      text.remove_prefix(bad);
    }
  }

 private:
  void encode_valid(std::string_view text, BpeMerger& merger, std::vector<int32_t>& out) const {
    std::string normal;
    if (vocabulary_.data.nfc) {
      normal = to_nfc(text);
      text = normal;
    }
    std::vector<std::string_view> pieces;
    pre_.split(text, pieces);
    for (const std::string_view piece : pieces) encode_piece(piece, merger, out);
  }

  void encode_piece(std::string_view piece, BpeMerger& merger, std::vector<int32_t>& out) const {
    if (vocabulary_.data.ignore_merges) {
      const int32_t id = vocabulary_.find(piece);
      if (id >= 0 && vocabulary_.is_text(id)) {
        out.push_back(id);
        return;
      }
    }
    merger.clear();
    for (size_t i = 0; i < piece.size(); ++i) {
      merger.add(static_cast<uint32_t>(i), 1, byte_id(piece[i]));
    }
    merger.run([&](const BpeSymbol& left,
                   const BpeSymbol& right) { return merges_.find(left.id, right.id); },
               [](const BpeSymbol&, const BpeSymbol&, int32_t) {});
    merger.for_each([&](const BpeSymbol& symbol) { emit(symbol.id, out); });
  }

  int32_t byte_id(char c) const { return vocabulary_.byte_ids[static_cast<uint8_t>(c)]; }

  // A byte that the vocabulary lacks is unknown, or nothing where there is no unknown token.
  void emit(int32_t id, std::vector<int32_t>& out) const {
    if (id < 0) id = vocabulary_.data.unk;
    if (id >= 0) out.push_back(id);
  }

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  PreTokenizer pre_;
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_byte_bpe(const Vocabulary& vocabulary) {
  const TokenizerData& data = vocabulary.data;
  std::vector<std::string> patterns = data.pre_patterns;
  if (patterns.empty()) patterns = RK_TRY(named_patterns(data.pre));
  if (data.split_digits) patterns.insert(patterns.begin(), R"(\p{N})");
  auto merges = RK_TRY(MergeTable::create(vocabulary));
  auto pre = RK_TRY(PreTokenizer::create(patterns));
  return std::unique_ptr<Encoder>(
      std::make_unique<ByteBpe>(vocabulary, std::move(merges), std::move(pre)));
}

}  // namespace ringkeep::text
