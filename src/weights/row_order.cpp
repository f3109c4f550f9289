#include "weights/row_order.h"

namespace ringkeep::weights {

RowOrder undo_interleave(int heads, int dim, int pairs) {
  RowOrder order(static_cast<size_t>(heads) * static_cast<size_t>(dim));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  for (int h = 0; h < heads; ++h)
    for (int j = 0; j < pairs; ++j)
      for (int s = 0; s < 2; ++s)
        order[static_cast<size_t>(h * dim + s * pairs + j)] = h * dim + 2 * j + s;
  return order;
}

}  // namespace ringkeep::weights
