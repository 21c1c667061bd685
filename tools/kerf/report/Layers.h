//===- Layers.h - names that layers repeat ----------------------*- C++ -*-===//
//
// A model of a hundred layers has a hundred names for one thing. Names that
// differ in one number alone, and of which the same is to be said, are one:
// "h.0.mlp.weight", ..., "h.11.mlp.weight" are "h.0-11.mlp.weight".
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_LAYERS_H
#define KERF_TOOLS_LAYERS_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kerf::tool {

/// Names of which the same is said.
struct AlikeNames {
  std::string name; ///< with the range of layers in the place of the number
  std::string what;
  std::vector<std::string> members;
  size_t prefix = 0; ///< letters of `name` up to and with the range; 0: none
};

/// The names with what is said of each, those of layers together, in the order
/// of first mention.
std::vector<AlikeNames>
groupLayers(const std::vector<std::pair<std::string, std::string>> &names);

/// What is said, each with the names of which it is said: those that share a
/// range of layers are one text, "h.0-11: mlp.weight, attn.weight".
std::vector<std::pair<std::string, std::vector<std::string>>>
listLayers(const std::vector<AlikeNames> &groups);

} // namespace kerf::tool

#endif // KERF_TOOLS_LAYERS_H
