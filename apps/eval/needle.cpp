#include "eval/needle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "engine/lane.h"

namespace ringkeep::eval {
namespace {

using Json = nlohmann::json;

constexpr std::array kCities = {
    "Lisbon",  "Oslo",   "Cairo",  "Lima",   "Kyoto",   "Dakar",  "Riga",    "Hanoi",
    "Quito",   "Perth",  "Tunis",  "Vienna", "Nairobi", "Dublin", "Havana",  "Zagreb",
    "Seoul",   "Athens", "Bogota", "Geneva", "Manila",  "Prague", "Tbilisi", "Accra",
    "Toronto", "Warsaw", "Lahore", "Porto",  "Izmir",   "Odessa", "Malmo",   "Cusco"};
constexpr std::array kWords = {"amber",  "cedar",  "cobalt",  "copper", "coral",
                               "falcon", "ginger", "harbor",  "indigo", "ivory",
                               "jasper", "lemon",  "maple",   "marble", "olive",
                               "orchid", "pepper", "saffron", "silver", "tulip"};
constexpr int64_t kQuestionRoom = 64;  // tokens that a question and its answer may take

Fact make_fact(const text::Tokenizer& tokenizer, const std::string& city, std::mt19937_64& random) {
  const std::string question = "\nThe code word of " + city + " is";
  const std::string word = kWords[random() % kWords.size()];
  const std::string answer = fmt::format(" {}-{}", word, 1000 + random() % 9000);
  const text::Tokenizer::EncodeOptions plain{.add_special = false, .parse_special = false};
  Fact fact{.statement = question + answer + ".\n"};
  fact.question = tokenizer.encode(question, plain);
  // The tokens of the whole, where those of the question go on: a word is seldom cut otherwise.
  const auto whole = tokenizer.encode(question + answer, plain);
  size_t common = 0;
  while (common < fact.question.size() && common + 1 < whole.size() &&
         whole[common] == fact.question[common])
    ++common;
  fact.question.assign(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(common));
  fact.answer.assign(whole.begin() + static_cast<ptrdiff_t>(common), whole.end());
  return fact;
}

std::optional<std::vector<Answer>> answers_from(const Json* json, size_t depths) {
  if (json == nullptr || !json->is_array() || json->size() != depths) return std::nullopt;
  std::vector<Answer> answers;
  for (const Json& entry : *json) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_boolean() || !entry[1].is_number())
      return std::nullopt;
    answers.push_back({entry[0].get<bool>(), entry[1].get<double>()});
  }
  return answers;
}

std::string key(size_t haystack, const Case& c) {
  return fmt::format("needle {} {}", haystack, c.key());
}

// The haystack once, then every question on a fork of it.
Result<Json> ask(engine::Engine& engine, const Case& c, const Haystack& haystack) {
  CacheFlags flags = c.flags;
  flags.parallel = 2;
  const auto lane = RK_TRY(engine::Lane::create(engine, flags, c.exact));
  const auto sequence = RK_TRY(lane->open());
  RK_TRY(lane->extend(sequence, haystack.tokens, 0, nullptr));
  const auto vocab = static_cast<size_t>(engine.config().vocab_size);
  Json out = Json::array();
  for (const Fact& fact : haystack.facts) {
    const auto fork = RK_TRY(lane->fork(sequence));
    std::vector<int32_t> tokens = fact.question;
    tokens.insert(tokens.end(), fact.answer.begin(), fact.answer.end() - 1);
    const auto wanted = static_cast<int64_t>(fact.answer.size());
    const int64_t first_wanted = static_cast<int64_t>(tokens.size()) - wanted;
    Answer answer{.exact = true};
    RK_TRY(lane->extend(fork, tokens, wanted, [&](int64_t first, int64_t rows, const float* data) {
      for (int64_t r = 0; r < rows; ++r) {
        const std::span<const float> row(data + static_cast<size_t>(r) * vocab, vocab);
        const int32_t token = fact.answer[static_cast<size_t>(first + r - first_wanted)];
        const Softmax s = softmax(row);
        answer.exact = answer.exact && s.top == token;
        answer.log_prob -= nll(row, s, token);
      }
    }));
    if (!std::isfinite(answer.log_prob))
      return make_error(ErrorKind::runtime, "codec {}: a logit is not finite", c.codec);
    lane->close(fork);
    out.push_back({answer.exact, answer.log_prob});
  }
  lane->close(sequence);
  return out;
}

}  // namespace

std::vector<int64_t> default_depths(const ModelConfig& config, int64_t ctx) {
  int64_t window = 0;
  for (const auto& layer : config.layers)
    if (layer.window > 0 && (window == 0 || layer.window < window)) window = layer.window;
  std::vector<int64_t> wanted = {64, 256, 1024};
  if (window > 0) wanted.insert(wanted.end(), {window - 64, window + 64});
  for (int64_t depth = 2048; depth < ctx; depth *= 2) wanted.push_back(depth);
  std::sort(wanted.begin(), wanted.end());
  std::vector<int64_t> depths;
  for (const int64_t depth : wanted)
    if (depth >= 0 && depth + 2 * kQuestionRoom <= ctx &&
        (depths.empty() || depth - depths.back() >= kQuestionRoom))
      depths.push_back(depth);
  return depths;
}

Result<NeedleSpec> make_haystacks(const text::Tokenizer& tokenizer, std::span<const int32_t> filler,
                                  int64_t ctx, const std::vector<int64_t>& depths, int count,
                                  uint64_t seed, int32_t bos) {
  if (filler.empty()) return input_error("the text to hide facts in has no tokens");
  if (depths.empty())
    return make_error(ErrorKind::usage, "--ctx {} leaves no room for a fact and a question", ctx);
  if (depths.size() > kCities.size())
    return make_error(ErrorKind::usage, "--depths: {} of them, at most {}", depths.size(),
                      kCities.size());
  NeedleSpec spec{.ctx = ctx, .depths = depths};
  std::sort(spec.depths.begin(), spec.depths.end());
  const int64_t length = ctx - kQuestionRoom;
  std::mt19937_64 random(seed);
  const text::Tokenizer::EncodeOptions plain{.add_special = false, .parse_special = false};
  for (int h = 0; h < count; ++h) {
    Haystack haystack;
    size_t at = random() % filler.size();
    std::vector<std::string> cities(kCities.begin(), kCities.end());
    for (size_t i = cities.size(); i > 1; --i) std::swap(cities[i - 1], cities[random() % i]);
    std::vector<std::vector<int32_t>> statements;
    for (size_t d = 0; d < spec.depths.size(); ++d) {
      haystack.facts.push_back(make_fact(tokenizer, cities[d], random));
      const Fact& fact = haystack.facts.back();
      if (static_cast<int64_t>(fact.question.size() + fact.answer.size()) > kQuestionRoom)
        return make_error(ErrorKind::runtime, "the question takes more than {} tokens",
                          kQuestionRoom);
      statements.push_back(tokenizer.encode(fact.statement, plain));
    }
    auto& tokens = haystack.tokens;
    if (bos >= 0) tokens.push_back(bos);
    for (size_t d = spec.depths.size(); d-- > 0;) {  // the farthest comes first
      const int64_t begin = length - spec.depths[d] - static_cast<int64_t>(statements[d].size());
      if (spec.depths[d] < 0 || begin < static_cast<int64_t>(tokens.size()))
        return make_error(ErrorKind::usage,
                          "--depths: {} leaves no room for its fact in a context of {} beside the "
                          "others",
                          spec.depths[d], ctx);
      while (static_cast<int64_t>(tokens.size()) < begin)
        tokens.push_back(filler[at++ % filler.size()]);
      tokens.insert(tokens.end(), statements[d].begin(), statements[d].end());
    }
    while (static_cast<int64_t>(tokens.size()) < length)
      tokens.push_back(filler[at++ % filler.size()]);
    spec.haystacks.push_back(std::move(haystack));
  }
  return spec;
}

Result<NeedleResult> run_needle(engine::Engine& engine, const NeedleSpec& spec,
                                const Case& reference, const std::vector<Case>& cases,
                                WorkFile& work, const RunHooks& hooks) {
  std::vector<Case> needed = {reference};
  for (const Case& c : cases)
    if (!c.is_f16) needed.push_back(c);
  const size_t depths = spec.depths.size();
  double missing = 0.0, done = 0.0;
  for (size_t h = 0; h < spec.haystacks.size(); ++h)
    for (const Case& c : needed) missing += !answers_from(work.find(key(h, c)), depths);
  for (size_t h = 0; h < spec.haystacks.size(); ++h)
    for (const Case& c : needed) {
      if (answers_from(work.find(key(h, c)), depths)) continue;
      if (hooks.stop && hooks.stop()) return make_error(ErrorKind::interrupted, "interrupted");
      RK_TRY(work.add(key(h, c), RK_TRY(ask(engine, c, spec.haystacks[h]))));
      if (hooks.update) hooks.update(++done, missing);
    }

  NeedleResult result{.spec = spec};
  const auto collect = [&](const Case& c) {
    NeedleCase row{.c = c};
    row.answers.resize(depths);
    for (size_t h = 0; h < spec.haystacks.size(); ++h) {
      const auto answers = answers_from(work.find(key(h, c.is_f16 ? reference : c)), depths);
      RK_CHECK(answers, "haystack {} of {} was not run", h, c.key());
      for (size_t d = 0; d < depths; ++d) row.answers[d].push_back((*answers)[d]);
    }
    return row;
  };
  result.reference = collect(reference);
  for (const Case& c : cases) result.rows.push_back(collect(c));
  return result;
}

NeedleCell needle_cell(const NeedleResult& result, const NeedleCase& row, size_t depth) {
  NeedleCell cell;
  std::vector<double> log_prob, delta;
  for (size_t i = 0; i < row.answers[depth].size(); ++i) {
    const Answer& answer = row.answers[depth][i];
    cell.exact += answer.exact;
    log_prob.push_back(answer.log_prob);
    delta.push_back(answer.log_prob - result.reference.answers[depth][i].log_prob);
  }
  cell.log_prob = mean(log_prob);
  cell.delta = mean(delta);
  double squares = 0.0;
  for (const double d : delta) squares += (d - cell.delta) * (d - cell.delta);
  const auto n = static_cast<double>(delta.size());
  if (n > 1) cell.delta_se = std::sqrt(squares / (n - 1) / n);
  return cell;
}

}  // namespace ringkeep::eval
