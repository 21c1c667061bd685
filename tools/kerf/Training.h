//===- Training.h - losses and optimizers as text ---------------*- C++ -*-===//
//
//   cross_entropy(logits,labels,ignore_index=-1)     adamw,lr=3e-4,wd=0.1
//
// are taken apart here; what names and keys there are, and what they mean, is
// checked where they are used.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_TRAINING_H
#define KERF_TOOLS_TRAINING_H

#include "Options.h"

#include "kerf/rt/train.h"

namespace kerf::tool {

/// A name, arguments without and settings with '='.
struct Wish {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> settings;
  bool hasParentheses = false;

  /// The setting as a number; `otherwise` if it is not given. Throws.
  double number(const std::string &key, double otherwise,
                const std::string &flag) const;
};

/// "name(a,b,key=value)" or "name,key=value".
Wish parseWish(const std::string &text, const std::string &flag);

/// Fills what the loop must know of loss, optimizer and learning rate.
void describeTraining(const Options &options, rt::TrainOptions &loop);

} // namespace kerf::tool

#endif // KERF_TOOLS_TRAINING_H
