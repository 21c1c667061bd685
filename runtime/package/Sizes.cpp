//===- Sizes.cpp - sizes.json to structs, and who is taken ----------------===//
#include "Sizes.h"

#include "JsonReader.h"
#include "kerf/Format/Schemas.h"

#include <algorithm>

using namespace kerf::rt;

int64_t OpenDim::sizeFor(int64_t size) const {
  auto enough = std::lower_bound(sizes.begin(), sizes.end(), size);
  if (enough == sizes.end() || size < 1)
    return 0;
  bool fits = *enough == size ||
              std::find(padded.begin(), padded.end(), size) != padded.end();
  return fits ? *enough : 0;
}

std::string OpenDim::text() const {
  std::vector<int64_t> all = sizes;
  all.insert(all.end(), padded.begin(), padded.end());
  std::sort(all.begin(), all.end());
  std::string text;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (++end < all.size() && all[end] == all[end - 1] + 1)
      ;
    text += cat(begin ? ", " : "", all[begin]);
    if (end - begin > 1)
      text += cat(end - begin == 2 ? ", " : " to ", all[end - 1]);
  }
  return text;
}

const Sizes::Program &
Sizes::programFor(const std::vector<int64_t> &wanted) const {
  std::vector<int64_t> taken;
  for (size_t d = 0; d < dims.size(); ++d) {
    taken.push_back(dims[d].sizeFor(wanted[d]));
    if (taken.back() == 0)
      throw Error(KERF_INVALID_ARGUMENT,
                  cat("dimension \"", dims[d].name, "\" is ", wanted[d],
                      ", the package takes ", dims[d].text()));
  }
  return *std::find_if(
      programs.begin(), programs.end(),
      [&](const Program &program) { return program.sizes == taken; });
}

namespace {
/// {"NAME": AXIS} of tensors.
std::vector<int32_t> parseAxes(const JsonReader &in,
                               const std::vector<GlobalTensor> &tensors) {
  if (!in.raw().is_object())
    in.fail("expected an object");
  std::vector<int32_t> axes(tensors.size(), -1);
  for (const auto &member : in.raw().items()) {
    const std::string &name = member.key();
    auto found =
        std::find_if(tensors.begin(), tensors.end(),
                     [&](const GlobalTensor &t) { return t.name == name; });
    if (found == tensors.end())
      in.fail("no tensor \"" + name + "\"");
    auto rank = static_cast<int64_t>(found->globalShape.size());
    axes[static_cast<size_t>(found - tensors.begin())] =
        static_cast<int32_t>(in[name.c_str()].integer(0, rank - 1));
  }
  return axes;
}

std::vector<int64_t> parseAscending(const JsonReader &in) {
  std::vector<int64_t> sizes;
  for (size_t i = 0, n = in.size(); i < n; ++i)
    sizes.push_back(
        in[i].integer(i ? sizes.back() + 1 : 1, JsonReader::maxInteger));
  return sizes;
}

OpenDim parseDim(const JsonReader &in, const Manifest &manifest) {
  OpenDim dim;
  dim.name = in["name"].string();
  dim.inputAxes = parseAxes(in["inputs"], manifest.inputs);
  dim.outputAxes = parseAxes(in["outputs"], manifest.outputs);
  dim.sizes = parseAscending(in["sizes"]);
  dim.padded = parseAscending(in["padded"]);
  if (dim.sizes.empty())
    in["sizes"].fail("expected a size");
  // The manifest is that of the largest.
  for (size_t i = 0; i < dim.inputAxes.size(); ++i)
    if (dim.inputAxes[i] >= 0 &&
        manifest.inputs[i].globalShape[dim.inputAxes[i]] != dim.sizes.back())
      in["inputs"].fail("\"" + manifest.inputs[i].name +
                        "\" has another size in manifest.json");
  for (size_t i = 0; i < dim.outputAxes.size(); ++i)
    if (dim.outputAxes[i] >= 0 &&
        manifest.outputs[i].globalShape[dim.outputAxes[i]] % dim.sizes.back())
      in["outputs"].fail("\"" + manifest.outputs[i].name +
                         "\" has no multiple of the size in manifest.json");
  return dim;
}
} // namespace

Sizes kerf::rt::parseSizes(const char *text, size_t bytes,
                           const Manifest &manifest) {
  JsonReader::json parsed =
      JsonReader::json::parse(text, text + bytes, nullptr, false);
  JsonReader::Members asked;
  JsonReader in(parsed, "sizes.json: ", &asked);
  if (parsed.is_discarded())
    in.fail("is not JSON");
  std::string wrong =
      kerf::schemaMismatch(kerf::sizesSchema, in["schema"].string());
  if (!wrong.empty())
    throw Error(KERF_OTHER_VERSION, in["schema"].where() + ": " + wrong);
  Sizes sizes;
  sizes.dims = in.list<OpenDim>(
      "dims", [&](const JsonReader &dim) { return parseDim(dim, manifest); });
  sizes.programs =
      in.list<Sizes::Program>("programs", [&](const JsonReader &program) {
        Sizes::Program result{program.stringOr("name", ""),
                              program["sizes"].shape()};
        if (result.sizes.size() != sizes.dims.size())
          program["sizes"].fail("expected one for each dimension");
        return result;
      });
  in.refuseUnknown();
  // There must be a program for each combination of sizes, so that sizes that
  // fit one by one always have a program.
  size_t combinations = 1;
  for (const OpenDim &dim : sizes.dims)
    combinations *= dim.sizes.size();
  if (sizes.dims.empty() || sizes.programs.size() != combinations)
    in.fail(cat("expected ", combinations, " programs of a dimension or more"));
  std::vector<std::vector<int64_t>> seen;
  for (size_t p = 0; p < sizes.programs.size(); ++p) {
    const std::vector<int64_t> &own = sizes.programs[p].sizes;
    for (size_t d = 0; d < own.size(); ++d)
      if (!std::binary_search(sizes.dims[d].sizes.begin(),
                              sizes.dims[d].sizes.end(), own[d]))
        in["programs"][p].fail("has a size that its dimension has not");
    if (std::find(seen.begin(), seen.end(), own) != seen.end())
      in["programs"][p].fail("has the sizes of another");
    seen.push_back(own);
  }
  return sizes;
}
