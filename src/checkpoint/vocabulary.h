// What both kinds of tokenizer files need: the byte alphabet of GPT-2 and the names of the tokens
// that end a reply.
#pragma once

#include <string>
#include <string_view>

#include "config/tokenizer_data.h"

namespace ringkeep::checkpoint {

// Undoes the alphabet in which byte-level BPE vocabularies write bytes as printable characters
// (GPT-2's bytes_to_unicode). False, with `out` undefined, when a character is outside it.
bool undo_byte_alphabet(std::string_view text, std::string& out);

// The same, or the text as it is.
std::string raw_bytes(std::string_view text);

// Adds eos and the well-known names ("<end_of_turn>", "<|im_end|>", ...) to end_of_generation,
// sorts it, and marks those tokens as control tokens.
void collect_end_of_generation(TokenizerData& data);

// For a pre-tokenizer that GGUF knows by name: whether a whole pre-token that is a token is taken
// without merging, and whether text begins with BOS unless the file says otherwise.
bool pre_ignores_merges(std::string_view pre);
bool pre_adds_bos(std::string_view pre);

}  // namespace ringkeep::checkpoint
