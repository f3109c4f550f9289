#include "cli/reply_view.h"

#include <cstdio>

#include "cli/output.h"

namespace ringkeep::cli {

ReplyView::ReplyView(const text::ChatTemplate* chat_template, const std::string& prompt,
                     const text::Tokenizer& tokenizer, engine::Request& request) {
  if (chat_template == nullptr) return;
  const prompt::ReplyFormat format = prompt::detect_reply_format(chat_template->source());
  if (!format.has_channels()) return;
  std::vector<std::string> marks;
  for (std::string& mark : prompt::reply_marks(format, /*tools=*/false))
    if (const int32_t id = tokenizer.id_of(mark); id >= 0 && tokenizer.is_control(id))
      marks.push_back(std::move(mark));
  for (const std::string& text : prompt::reply_stop_strings(format, /*tools=*/false))
    request.stop.push_back(prompt::as_written(text, marks));
  if (!marks.empty()) request.control = engine::ControlText::marked;
  parser_.emplace(
      format, prompt::ReplyOptions{.in_reasoning = prompt::prompt_opens_reasoning(format, prompt),
                                   .control_marks = std::move(marks)});
  for (const std::string& mark : prompt::reply_stop_tokens(format))
    if (const int32_t id = tokenizer.id_of(mark); id >= 0 && !request.ignore_eos)
      request.stop_tokens.push_back(id);
}

Status ReplyView::push(const std::string& text, bool print) {
  if (parser_) return show(parser_->push(text), print);
  return print ? print_now(text) : Status();
}

Status ReplyView::finish(Generation& generation, bool print) {
  if (!parser_) return {};
  RK_TRY(show(parser_->finish(generation.finish != engine::FinishReason::stop), print));
  if (!reasoning_.empty() && answer_.empty() && print) std::fputs("\n", stderr);
  generation.text = answer_;
  generation.reasoning = reasoning_;
  return {};
}

Status ReplyView::show(const prompt::ReplyDelta& delta, bool print) {
  reasoning_ += delta.reasoning;
  const bool first = answer_.empty() && !delta.content.empty();
  answer_ += delta.content;
  if (!print) return {};
  std::fputs(delta.reasoning.c_str(), stderr);
  if (first && !reasoning_.empty()) std::fputs("\n", stderr);
  return delta.content.empty() ? Status() : print_now(delta.content);
}

}  // namespace ringkeep::cli
