// SentencePiece-style BPE (Kudo and Richardson 2018, arXiv:1808.06226): spaces become U+2581,
// characters merge by the score of the piece they make, or by the rank of a merge list when there
// is one; a character without a piece falls back to its bytes.
#include <bit>
#include <unordered_map>
#include <utility>

#include "text/bpe_merge.h"
#include "text/encoder.h"
#include "text/merge_table.h"
#include "text/utf8.h"

namespace ringkeep::text {
namespace {

// Higher scores get smaller keys: the bits of -score, mapped so that they order as the numbers do.
uint32_t key_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(0.0f - score);  // never -0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

class SpmBpe final : public Encoder {
 public:
  SpmBpe(const Vocabulary& vocabulary, MergeTable merges)
      : vocabulary_(vocabulary), merges_(std::move(merges)) {}

  void encode(std::string_view text, bool first, std::vector<int32_t>& out) const override {
    if (text.empty()) return;
    std::string escaped;
    escaped.reserve(text.size() + text.size() / 2);
    if (first && vocabulary_.data.add_space_prefix) escaped += kSpaceMark;
    for (const char c : text) {
      if (c == ' ') {
        escaped += kSpaceMark;
      } else {
        escaped += c;
      }
    }
    BpeMerger merger;
    for (size_t at = 0; at < escaped.size();) {
      const Utf8Step step = utf8_step(std::string_view(escaped).substr(at));
      // Every byte that belongs to no character stands alone.
      const size_t size = step.kind == Utf8Step::Kind::valid ? step.size : 1;
      merger.add(static_cast<uint32_t>(at), static_cast<uint32_t>(size),
                 text_id(std::string_view(escaped).substr(at, size)));
      at += size;
    }
    if (merges_.empty()) {
      merge_by_score(escaped, merger, out);
    } else {
      merger.run([&](const BpeSymbol& left,
                     const BpeSymbol& right) { return merges_.find(left.id, right.id); },
                 [](const BpeSymbol&, const BpeSymbol&, int32_t) {});
      bool after_unknown = false;
      merger.for_each([&](const BpeSymbol& symbol) {
        emit(std::string_view(escaped).substr(symbol.offset, symbol.size), symbol.id, after_unknown,
             out);
      });
    }
  }

 private:
  int32_t text_id(std::string_view piece) const {
    const int32_t id = vocabulary_.find(piece);
    return id >= 0 && vocabulary_.is_text(id) ? id : -1;
  }

  using Halves =
      std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>>;

  void merge_by_score(std::string_view text, BpeMerger& merger, std::vector<int32_t>& out) const {
    Halves halves;  // of merged pieces that are marked unused: they are taken apart again
    merger.run(
        [&](const BpeSymbol& left, const BpeSymbol& right) -> BpeMerge {
          const size_t size = size_t{left.size} + right.size;
          if (size > vocabulary_.longest_piece) return {};
          const int32_t id = text_id(text.substr(left.offset, size));
          if (id < 0) return {};
          return {key_of(vocabulary_.data.scores[id]), id};
        },
        [&](const BpeSymbol& left, const BpeSymbol& right, int32_t id) {
          if (vocabulary_.type(id) != TokenType::unused) return;
          halves.try_emplace(text.substr(left.offset, size_t{left.size} + right.size),
                             text.substr(left.offset, left.size),
                             text.substr(right.offset, right.size));
        });
    bool after_unknown = false;
    std::vector<std::string_view> stack;
    merger.for_each([&](const BpeSymbol& symbol) {
      stack.assign(1, text.substr(symbol.offset, symbol.size));
      while (!stack.empty()) {
        const std::string_view piece = stack.back();
        stack.pop_back();
        if (const auto it = halves.find(piece); it != halves.end()) {
          stack.push_back(it->second.second);
          stack.push_back(it->second.first);
        } else {
          emit(piece, text_id(piece), after_unknown, out);
        }
      }
    });
  }

  // One symbol's ids: its token, or its bytes' tokens, or one unknown token for a run of symbols
  // that have neither (nothing where the model has no unknown token).
  void emit(std::string_view piece, int32_t id, bool& after_unknown,
            std::vector<int32_t>& out) const {
    if (id >= 0) {
      out.push_back(id);
      after_unknown = false;
      return;
    }
    bool bytes = vocabulary_.data.byte_fallback;
    for (const char c : piece) bytes = bytes && vocabulary_.byte_ids[static_cast<uint8_t>(c)] >= 0;
    if (bytes) {
      for (const char c : piece) out.push_back(vocabulary_.byte_ids[static_cast<uint8_t>(c)]);
    } else if (!after_unknown && vocabulary_.data.unk >= 0) {
      out.push_back(vocabulary_.data.unk);
    }
    after_unknown = !bytes;
  }

  const Vocabulary& vocabulary_;
  MergeTable merges_;
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_spm_bpe(const Vocabulary& vocabulary) {
  auto merges = RK_TRY(MergeTable::create(vocabulary));
  return std::unique_ptr<Encoder>(std::make_unique<SpmBpe>(vocabulary, std::move(merges)));
}

}  // namespace ringkeep::text
