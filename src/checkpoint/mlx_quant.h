// MLX's affine quantization (mlx.core.quantize): a module's weight is three tensors, packed codes
// u32 [rows, cols * bits / 32], scales and biases [rows, cols / group]. Mode mxfp4 has u8 scales
// (E8M0) and no biases. config.json gives mode, bits and group for all modules, and exceptions by
// module name. Stacks of matrices have one dimension more, in front.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "checkpoint/json_fields.h"
#include "quant/source_tensor.h"

namespace ringkeep::checkpoint {

struct MlxModule {
  int bits = 0;  // 0: not quantized
  int group = 0;
  bool mxfp4 = false;
};

struct MlxQuantization {
  MlxModule global;
  std::map<std::string, MlxModule> modules;  // by name, without leading model. and language_model.
  // The settings of the module `name`, whichever prefix the configuration uses.
  MlxModule of(const std::string& name) const;
};

// nullopt when config.json has no MLX quantization. Errors (input): modes other than affine and
// mxfp4, bits or groups that MLX does not have.
Result<std::optional<MlxQuantization>> read_mlx_quantization(const Json& config);

// Folds weight, scales and biases of each quantized module into one SourceTensor under the
// weight's name, with the logical shape. Errors (input) name the tensor: shapes that do not fit
// together, or a width that contradicts the configuration.
Status fold_mlx_tensors(const std::optional<MlxQuantization>& quantization,
                        std::map<std::string, quant::SourceTensor>& tensors);

// Folds Hugging Face's MXFP4, u8 tensors NAME_blocks [.., rows, cols / 32, 16] and NAME_scales
// [.., rows, cols / 32], into one SourceTensor NAME. Errors (input) name the tensor: shapes or
// types that do not fit together.
Status fold_mxfp4_tensors(std::map<std::string, quant::SourceTensor>& tensors);

}  // namespace ringkeep::checkpoint
