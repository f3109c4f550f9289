// The canonical rows of kv_rows.h from and to the pages of host_kv.h.
#include <cstring>
#include <vector>

#include "kernels/api/host_kv.h"
#include "kernels/api/kv_rows.h"

namespace ringkeep::kernels {
namespace {

// Rows [first, last) of the call, all in one page: one task, since tokens of a page share bytes.
struct PageRun {
  int64_t first;
  int64_t last;
};

std::vector<PageRun> page_runs(const KvRowsParams& p) {
  std::vector<PageRun> runs;
  for (int64_t i = 0; i < p.n; ++i)
    if (i > 0 && p.slots[i] / kPageTokens == p.slots[i - 1] / kPageTokens)
      runs.back().last = i + 1;
    else
      runs.push_back({i, i + 1});
  return runs;
}

// MLX's code of a V group whose scale is negative is stored counted downwards (host_kv.h).
int turned(const HostKvPlane& plane, uint16_t scale, int code) {
  const bool down = plane.codec.scheme == KvScheme::affine && plane.value && scale > 0x8000;
  return down ? (1 << plane.codec.bits) - 1 - code : code;
}

uint16_t load_half(const std::byte* from) {
  uint16_t half;
  std::memcpy(&half, from, sizeof(half));
  return half;
}

// One row between its place in a head block and its canonical fields.
class RowMover {
 public:
  RowMover(const HostKvPlane& plane, const KvPlaneRows& rows)
      : plane_(plane), rows_(rows), bytes_(kv_row_bytes(plane.codec, plane.dim)) {}

  void take_out(const std::byte* head, int token, int64_t row) const {
    std::byte* codes = rows_.codes + row * bytes_.codes;
    if (plane_.codec.halves()) {
      for (int d = 0; d < plane_.dim; ++d)
        std::memcpy(codes + 2 * d, head + half_offset(plane_, token, d), 2);
      return;
    }
    move_scales(head, token, row, [](std::byte* canonical, const std::byte* stored) {
      std::memcpy(canonical, stored, 2);
    });
    uint32_t pending = 0;  // bits that do not fill a byte yet
    int held = 0;
    for (int d = 0; d < plane_.dim; ++d) {
      const uint16_t scale = load_half(head + scale_offset(plane_, token, d / plane_.group));
      const int code = turned(plane_, scale, get_code(plane_, head, token, d));
      pending |= static_cast<uint32_t>(code) << held;
      for (held += plane_.codec.bits; held >= 8; held -= 8, pending >>= 8)
        *codes++ = static_cast<std::byte>(pending & 0xff);
    }
    if (held > 0) *codes = static_cast<std::byte>(pending & 0xff);
  }

  void put_in(std::byte* head, int token, int64_t row) const {
    const std::byte* codes = rows_.codes + row * bytes_.codes;
    if (plane_.codec.halves()) {
      for (int d = 0; d < plane_.dim; ++d)
        std::memcpy(head + half_offset(plane_, token, d), codes + 2 * d, 2);
      return;
    }
    move_scales(head, token, row, [](const std::byte* canonical, std::byte* stored) {
      std::memcpy(stored, canonical, 2);
    });
    const uint32_t mask = (1u << plane_.codec.bits) - 1;
    uint32_t pending = 0;
    int held = 0;
    for (int d = 0; d < plane_.dim; ++d) {
      for (; held < plane_.codec.bits; held += 8)
        pending |= static_cast<uint32_t>(*codes++) << held;
      const uint16_t scale = load_half(head + scale_offset(plane_, token, d / plane_.group));
      set_code(plane_, head, token, d, turned(plane_, scale, static_cast<int>(pending & mask)));
      pending >>= plane_.codec.bits;
      held -= plane_.codec.bits;
    }
  }

 private:
  template <typename Byte, typename Move>
  void move_scales(Byte* head, int token, int64_t row, const Move& move) const {
    for (int g = 0; g < plane_.groups; ++g) {
      move(rows_.scales + row * bytes_.scales + 2 * g, head + scale_offset(plane_, token, g));
      if (plane_.codec.scheme == KvScheme::affine)
        move(rows_.biases + row * bytes_.biases + 2 * g, head + bias_offset(plane_, token, g));
    }
  }

  HostKvPlane plane_;
  KvPlaneRows rows_;
  KvRowBytes bytes_;
};

template <typename Move>
void for_each_row(const KvRowsParams& p, Exec& exec, const Move& move) {
  const HostKvLayout layout(p.geometry);
  const std::vector<PageRun> runs = page_runs(p);
  const int64_t heads = p.geometry.kv_heads;
  exec.pool().parallel_for(static_cast<int64_t>(runs.size()) * heads, [&](int64_t task, int) {
    const int64_t head = task % heads;
    const PageRun& run = runs[static_cast<size_t>(task / heads)];
    for (int64_t i = run.first; i < run.last; ++i)
      move(p.storage + p.slots[i] / kPageTokens * p.page_stride +
               head * static_cast<int64_t>(layout.head_bytes),
           static_cast<int>(p.slots[i] % kPageTokens), head * p.n + i);
  });
}

}  // namespace

void host_kv_export(const KvRowsParams& p, Exec& exec) {
  const HostKvLayout layout(p.geometry);
  const RowMover k(layout.k, p.k), v(layout.v, p.v);
  for_each_row(p, exec, [&](const std::byte* head, int token, int64_t row) {
    k.take_out(head, token, row);
    v.take_out(head, token, row);
  });
}

void host_kv_import(const KvRowsParams& p, Exec& exec) {
  const HostKvLayout layout(p.geometry);
  const RowMover k(layout.k, p.k), v(layout.v, p.v);
  for_each_row(p, exec, [&](std::byte* head, int token, int64_t row) {
    k.put_in(head, token, row);
    v.put_in(head, token, row);
  });
}

}  // namespace ringkeep::kernels
