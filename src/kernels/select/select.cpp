#include "kernels/select/select.h"

#include "kernels/cpu/cpu.h"
#include "kernels/ref/ref.h"

namespace ringkeep::kernels {
namespace {

void add_reference(Ops& ops) {
  ref::add_dense_kernels(ops);
  ref::add_altup_kernels(ops);
  ref::add_linear_kernels(ops);
  ref::add_expert_kernels(ops);
  ref::add_kv_kernels(ops);
  ref::add_attention_kernels(ops);
}

template <typename Params>
void list(std::string& text, const char* op, const KernelTable<Params>& table) {
  text += fmt::format("{:<12}", op);
  for (const auto& kernel : table) text += fmt::format(" {}", kernel.name);
  text += '\n';
}

}  // namespace

Ops ref_backend() {
  Ops ops;
  set_host_layouts(ops);
  add_reference(ops);
  return ops;
}

Ops cpu_backend() {
  Ops ops;
  set_host_layouts(ops);
  cpu::add_dense_kernels(ops);
  cpu::add_altup_kernels(ops);
  cpu::add_linear_kernels(ops);
  cpu::add_grouped_linear_kernels(ops);
  cpu::add_kv_kernels(ops);
  cpu::add_attention_kernels(ops);
  cpu::add_pointwise_kernels(ops);
  add_reference(ops);
  return ops;
}

std::string explain(const Ops& ops) {
  std::string text = fmt::format("SIMD target: {}\n", cpu::target_name());
  list(text, "linear", ops.linear);
  list(text, "route", ops.route);
  list(text, "grouped", ops.grouped_linear);
  list(text, "combine", ops.combine);
  list(text, "embed", ops.embed);
  list(text, "rms_norm", ops.rms_norm);
  list(text, "rope_table", ops.rope_table);
  list(text, "norm_rope", ops.norm_rope);
  list(text, "glu", ops.glu);
  list(text, "add", ops.add);
  list(text, "softcap", ops.softcap);
  list(text, "top_k", ops.gaussian_topk);
  list(text, "match_rms", ops.match_rms);
  list(text, "predict", ops.altup_predict);
  list(text, "correct", ops.altup_correct);
  list(text, "kv_append", ops.kv_append);
  list(text, "kv_read", ops.kv_read);
  list(text, "attention", ops.attention);
  return text;
}

}  // namespace ringkeep::kernels
