#include "text/pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "text/pattern_dialect.h"

namespace ringkeep::text {
namespace {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, Freer<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>>;

// For one match, so that a pattern from a file can neither hang nor eat the memory.
constexpr uint32_t kMatchLimit = 50'000'000;  // steps
constexpr uint32_t kHeapLimit = 64 * 1024;    // KiB, for the matcher without JIT
constexpr size_t kJitStackStart = 64 * 1024, kJitStackMax = 16 * 1024 * 1024;  // bytes

Result<Code> compile(const std::string& pattern) {
  const std::string source = RK_TRY(to_pcre2(pattern));
  const CompileContext context(pcre2_compile_context_create(nullptr));
  RK_CHECK(context, "no memory for a pattern");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context.get()));
  if (!code) {
    char message[256] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
    return input_error("tokenizer: pre-tokenizer pattern '{}': {} (at byte {})", source, message,
                       offset);
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without JIT the matcher still works
  return code;
}

}  // namespace

struct PreTokenizer::State {
  std::vector<Code> codes;
};

PreTokenizer::PreTokenizer() : state_(std::make_unique<State>()) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::create(const std::vector<std::string>& patterns) {
  PreTokenizer result;
  for (const std::string& pattern : patterns) {
    result.state_->codes.push_back(RK_TRY(compile(pattern)));
  }
  return result;
}

namespace {

// What one call of split() needs besides the compiled patterns, which threads share.
class Matcher {
 public:
  Matcher()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)) {
    RK_CHECK(data_ && context_, "no memory for a match");
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_heap_limit(context_.get(), kHeapLimit);
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  // The first match at or after `from`: [begin, end) in `text`; false when there is none or a
  // limit was met.
  bool find(const pcre2_code* code, std::string_view text, size_t from, size_t& begin,
            size_t& end) const {
    int count = match(code, text, from, PCRE2_NO_UTF_CHECK);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = match(code, text, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
    }
    if (count < 0) return false;
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_.get());
    begin = offsets[0];
    end = offsets[1];
    return begin >= from && end >= begin;  // \K may set the beginning anywhere
  }

 private:
  int match(const pcre2_code* code, std::string_view text, size_t from, uint32_t options) const {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, options,
                       data_.get(), context_.get());
  }
  MatchData data_;
  MatchContext context_;
  JitStack stack_;
};

size_t next_character(std::string_view text, size_t at) {
  do {
    ++at;
  } while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

void split_by(const Matcher& matcher, const pcre2_code* code, std::string_view text,
              std::vector<std::string_view>& out) {
  size_t done = 0;  // pieces of text[0, done) are out
  size_t from = 0, begin = 0, end = 0;
  while (from <= text.size() && matcher.find(code, text, from, begin, end)) {
    if (begin > done) out.push_back(text.substr(done, begin - done));
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    done = end;
    from = end > begin ? end : next_character(text, end);  // an empty match still cuts
  }
  if (done < text.size()) out.push_back(text.substr(done));
}

}  // namespace

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& out) const {
  if (text.empty()) return;
  const Matcher matcher;
  std::vector<std::string_view> pieces{text}, parts;
  for (const Code& code : state_->codes) {
    parts.clear();
    for (const std::string_view piece : pieces) split_by(matcher, code.get(), piece, parts);
    pieces.swap(parts);
  }
  out.insert(out.end(), pieces.begin(), pieces.end());
}

}  // namespace ringkeep::text
