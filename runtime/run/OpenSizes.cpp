//===- OpenSizes.cpp - inputs of any size that a package takes ------------===//
#include "OpenSizes.h"

#include "kerf/Format/ClosestName.h"

#include "../base/Types.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace kerf::rt {

std::vector<kerf_open_dim_t> openDimsOf(const kerf_package_t *package) {
  std::vector<kerf_open_dim_t> dims(
      static_cast<size_t>(kerf_package_num_open_dims(package)));
  for (size_t d = 0; d < dims.size(); ++d) // no index is out of range
    kerf_status_free(
        kerf_package_open_dim(package, static_cast<int32_t>(d), &dims[d]));
  return dims;
}

int64_t programSize(const kerf_open_dim_t &dim, int64_t size) {
  return *std::lower_bound(dim.sizes, dim.sizes + dim.num_sizes, size);
}

void openSpecs(const std::vector<kerf_open_dim_t> &dims,
               std::vector<InputSpec> &specs) {
  for (size_t i = 0; i < specs.size(); ++i)
    for (const kerf_open_dim_t &dim : dims) {
      if (dim.input_axes[i] < 0)
        continue;
      auto axis = static_cast<size_t>(dim.input_axes[i]);
      specs[i].symbols.resize(specs[i].shape.size());
      specs[i].shape[axis] = -1;
      specs[i].symbols[axis] = dim.name;
    }
}

/// What a package has of which no size is open: "x" is 8x32.
static std::string sizesText(const std::vector<InputSpec> &specs) {
  constexpr size_t kMost = 4; // inputs
  std::string text;
  for (size_t i = 0; i < specs.size() && i < kMost; ++i) {
    std::string shape;
    for (int64_t size : specs[i].shape)
      shape += (shape.empty() ? "" : "x") + std::to_string(size);
    text += cat(i > 0 ? ", \"" : "\"", specs[i].name, "\" is ",
                shape.empty() ? "a number" : shape);
  }
  return text + (specs.size() > kMost ? ", ..." : "");
}

/// The dimension that "NAME=SIZE" binds, and its size; -1 with `error`.
static int64_t parseBinding(const std::string &text,
                            const std::vector<kerf_open_dim_t> &dims,
                            const std::vector<InputSpec> &specs, int64_t &size,
                            std::string &error) {
  size_t equals = text.rfind('=');
  char *end = nullptr;
  if (equals != std::string::npos)
    size = std::strtoll(text.c_str() + equals + 1, &end, 10);
  if (!end || *end || end == text.c_str() + equals + 1) {
    error = cat("option dim: '", text, "', expected NAME=SIZE");
    return -1;
  }
  std::string name = text.substr(0, equals);
  std::vector<std::string> names;
  for (const kerf_open_dim_t &dim : dims)
    names.push_back(dim.name);
  auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end())
    return found - names.begin();
  std::string close = kerf::closestName(name, names);
  error = cat("option dim: no open dimension \"", name, "\"",
              names.empty() ? ", the package has one size: " + sizesText(specs)
              : close.empty() ? ""
                              : ", did you mean \"" + close + "\"?");
  return -1;
}

bool findSizes(const std::vector<kerf_open_dim_t> &dims,
               const std::vector<std::string> &bindings,
               const std::vector<InputSpec> &specs,
               const std::vector<std::optional<GivenInput>> &given,
               std::vector<int64_t> &sizes, std::vector<std::string> &notes,
               std::string &error) {
  sizes.clear();
  std::vector<int64_t> bound(dims.size(), -1);
  for (const std::string &text : bindings) {
    int64_t size = 0, index = parseBinding(text, dims, specs, size, error);
    if (index < 0)
      return false;
    bound[static_cast<size_t>(index)] = size;
  }
  for (const kerf_open_dim_t &dim : dims) {
    int64_t size = bound[sizes.size()];
    std::string teller = size < 0 ? "" : "option dim";
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!given[i] || given[i]->file.empty() || dim.input_axes[i] < 0)
        continue;
      int64_t own = given[i]->shape[static_cast<size_t>(dim.input_axes[i])];
      if (!teller.empty() && own != size) {
        error =
            cat(given[i]->file, ": dimension \"", dim.name, "\" of input \"",
                specs[i].name, "\" is ", own, ", by ", teller, " it is ", size);
        return false;
      }
      size = own;
      teller = cat("input \"", specs[i].name, "\"");
    }
    if (teller.empty()) {
      size = dim.sizes[dim.num_sizes - 1];
      notes.push_back(cat("dimension \"", dim.name, "\" is ", size,
                          ", the largest size of the package, since no input "
                          "says another; option dim ",
                          dim.name, "=SIZE does"));
    }
    sizes.push_back(size);
  }
  return true;
}

/// With another number of rows in one axis.
static HostTensor resizedAxis(const HostTensor &tensor, size_t axis,
                              int64_t rows) {
  HostTensor result = {tensor.dtype, tensor.shape, {}};
  result.shape[axis] = rows;
  size_t outer = 1, inner = kerf_dtype_size(tensor.dtype);
  for (size_t d = 0; d < tensor.shape.size(); ++d)
    (d < axis ? outer : inner) *=
        d == axis ? 1 : static_cast<size_t>(tensor.shape[d]);
  auto before = static_cast<size_t>(tensor.shape[axis]);
  auto after = static_cast<size_t>(rows);
  result.data.resize(outer * after * inner);
  for (size_t o = 0; o < outer; ++o)
    for (size_t row = 0; row < after; ++row)
      std::memcpy(result.data.data() + (o * after + row) * inner,
                  tensor.data.data() +
                      (o * before + std::min(row, before - 1)) * inner,
                  inner);
  return result;
}

HostTensor resized(const HostTensor &tensor,
                   const std::vector<int64_t> &shape) {
  HostTensor result = tensor;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (result.shape[axis] != shape[axis])
      result = resizedAxis(result, axis, shape[axis]);
  return result;
}

} // namespace kerf::rt
