// The order of q and k rows that formats and families store for interleaved rotary pairs.
#pragma once

#include "weights/packed.h"

namespace ringkeep::weights {

// Rows stored for interleaved rotary pairs: row 2j + s of a head holds our row s * pairs + j, for
// the first 2 * pairs rows of each of `heads` heads of `dim` rows.
RowOrder undo_interleave(int heads, int dim, int pairs);

}  // namespace ringkeep::weights
