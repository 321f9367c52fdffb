// The flags that say how large a GPT is, for the programs that train one.
//
// What they mean is in the text of --help.
#pragma once

#include "examples/char_lm/gpt_options.h"
#include "examples/common/flags.h"

inline void add_model(CLI::App& app, GptOptions& model) {
  add_number(app, "--context", model.context, "characters that the model sees at once", 1);
  add_number(app, "--width", model.width, "of the model, a multiple of --heads", 1);
  add_number(app, "--heads", model.heads, "of attention, in each layer", 1);
  add_number(app, "--layers", model.layers, "of the model", 1);
  app.add_option("--dropout", model.dropout, "share that is left out")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.9));
}
