// The families, one file each; registry.cpp chooses by ModelConfig::family.
#pragma once

#include "models/blocks/decoder.h"

namespace ringkeep::models {

class Gemma3 final : public Decoder {  // and Gemma 2
 public:
  using Decoder::Decoder;

 private:
  void layer(int index, const weights::LayerWeights& w, Step& step) override;
};

class Gemma3n final : public Decoder {
 public:
  using Decoder::Decoder;

 private:
  void before_layers(Step& step) override;
  void layer(int index, const weights::LayerWeights& w, Step& step) override;
  void after_layers(Step& step) override { close_streams(step); }
  void add_layer_embedding(int index, const weights::LayerWeights& w, Step& step);
};

class Gemma4 final : public Decoder {
 public:
  using Decoder::Decoder;

 private:
  void before_layers(Step& step) override;
  void layer(int index, const weights::LayerWeights& w, Step& step) override;
  void add_experts(const weights::LayerWeights& w, Step& step);
};

class Llama final : public Decoder {  // and Mistral, Ministral 3, Qwen 2 and 3, Phi-3, SmolLM 3
 public:
  using Decoder::Decoder;

 private:
  void layer(int index, const weights::LayerWeights& w, Step& step) override;
};

class QwenMoe final : public Decoder {  // Qwen 2 and 3 with experts
 public:
  using Decoder::Decoder;

 private:
  void layer(int index, const weights::LayerWeights& w, Step& step) override;
};

class Llama4 final : public Decoder {
 public:
  using Decoder::Decoder;

 private:
  void layer(int index, const weights::LayerWeights& w, Step& step) override;
};

class GptOss final : public Decoder {
 public:
  using Decoder::Decoder;

 private:
  void layer(int index, const weights::LayerWeights& w, Step& step) override;
};

class Olmo final : public Decoder {  // 2 and 3
 public:
  using Decoder::Decoder;

 private:
  void layer(int index, const weights::LayerWeights& w, Step& step) override;
};

class Cohere2 final : public Decoder {
 public:
  using Decoder::Decoder;

 private:
  void layer(int index, const weights::LayerWeights& w, Step& step) override;
};

}  // namespace ringkeep::models
