// The flags for the size of a GPT, for the programs that train one.
//
// The text of --help explains them.
#pragma once

#include "examples/char_lm/gpt_options.h"
#include "examples/common/flags.h"

inline void add_model(Flags& flags, GptOptions& model) {
  flags.number("--context", model.context, "characters that the model sees at once", 1);
  flags.number("--width", model.width, "features of each position, a multiple of --heads", 1);
  flags.number("--heads", model.heads, "attention heads in each layer", 1);
  flags.number("--layers", model.layers, "transformer blocks", 1);
  flags.number("--dropout", model.dropout, "share of values that dropout zeroes", 0.0, 0.9);
}
