// The flags that say how large a GPT is, for the programs that train one.
//
// What they mean is in the text of --help.
#pragma once

#include "examples/char_lm/gpt_options.h"
#include "examples/common/flags.h"

inline void add_model(Flags& flags, GptOptions& model) {
  flags.number("--context", model.context, "characters that the model sees at once", 1);
  flags.number("--width", model.width, "of the model, a multiple of --heads", 1);
  flags.number("--heads", model.heads, "of attention, in each layer", 1);
  flags.number("--layers", model.layers, "of the model", 1);
  flags.number("--dropout", model.dropout, "share that is left out", 0.0, 0.9);
}
