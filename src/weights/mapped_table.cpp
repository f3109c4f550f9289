#include "weights/mapped_table.h"

namespace ringkeep::weights {

void MappedTable::read(std::span<const int32_t> rows, float scale, float* out,
                       ThreadPool& pool) const {
  pool.parallel_for(static_cast<int64_t>(rows.size()), [&](int64_t r, int) {
    float* row = out + r * cols();
    quant::dequantize(quant::decode_rows(*source_, rows[static_cast<size_t>(r)], 1), row);
    for (int64_t i = 0; i < cols(); ++i) row[i] *= scale;
  });
}

}  // namespace ringkeep::weights
