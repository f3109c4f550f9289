#include "kernels/api/host_kv.h"
#include "kernels/api/host_weights.h"
#include "kernels/api/ops.h"

namespace ringkeep::kernels {

void set_host_layouts(Ops& ops) {
  ops.weight_row_block = kRowBlock;
  ops.weight_bytes = host_weight_bytes;
  ops.pack_rows = host_pack_rows;
  set_host_kv_layout(ops);
}

}  // namespace ringkeep::kernels
