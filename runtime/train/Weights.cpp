//===- Weights.cpp - trained parameters and tensors, by name --------------===//
#include "Weights.h"

#include "../base/Boxes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <tuple>

using namespace kerf::rt;

void kerf::rt::checkStatus(kerf_status_t status) {
  if (!status)
    return;
  Error error(kerf_status_code(status), kerf_status_message(status),
              kerf_status_node(status));
  for (int32_t i = 0; i < kerf_status_num_notes(status); ++i)
    error.notes.push_back(kerf_status_note(status, i));
  kerf_status_free(status);
  throw error;
}

static Shape shapeOf(const kerf_tensor_info_t &info) {
  return {info.shape, info.shape + info.rank};
}

Weights::Weights(const kerf_package_t *package) {
  std::map<std::string, size_t> byName;
  // Copies of one tensor begin with the same bytes.
  std::map<std::tuple<std::string, uint64_t, std::string>, size_t> byPlace;
  for (int32_t i = 0, n = kerf_package_num_parameters(package); i < n; ++i) {
    kerf_parameter_info_t info;
    checkStatus(kerf_package_parameter(package, i, &info));
    size_t tensor = SIZE_MAX;
    if (info.file) {
      auto [place, added] = byPlace.insert(
          {{info.file, info.file_offset, info.stored.name}, stored.size()});
      tensor = place->second;
      if (added) {
        std::shared_ptr<MappedFile> &file = files[info.file];
        if (!file)
          file = std::make_shared<MappedFile>(info.file);
        stored.push_back({info.stored.name,
                          info.file,
                          info.file_offset,
                          info.stored.dtype,
                          shapeOf(info.stored),
                          {}});
        if (info.file_offset > file->size() ||
            info.stored.bytes > file->size() - info.file_offset)
          throw Error(KERF_IO_ERROR, cat(info.file, ": has become shorter"));
      }
    }
    if (!info.is_mutable)
      continue;
    auto [place, added] = byName.insert({info.tensor.name, all.size()});
    if (added) {
      all.push_back({info.tensor.name,
                     info.tensor.dtype,
                     shapeOf(info.tensor),
                     {},
                     info.stored.name == nullptr});
      if (tensor != SIZE_MAX) {
        Tensor::Part part{place->second, {}, {}};
        if (info.view_starts) {
          part.starts.assign(info.view_starts,
                             info.view_starts + info.tensor.rank);
          part.sizes = shapeOf(info.tensor);
        }
        stored[tensor].parts.push_back(part);
      }
    }
    Parameter &parameter = all[place->second];
    if (parameter.dtype != info.tensor.dtype ||
        parameter.shape != shapeOf(info.tensor))
      throw Error(KERF_BAD_PACKAGE,
                  cat("parameter \"", parameter.name, "\" is ",
                      shapeString(parameter.shape), " and ",
                      shapeString(shapeOf(info.tensor))));
    parameter.indices.push_back(i);
  }
}

void Weights::get(kerf_session_t *session, size_t index, char *data) const {
  const Parameter &parameter = all[index];
  size_t bytes = static_cast<size_t>(parameter.bytes());
  checkStatus(
      kerf_session_get_parameter(session, parameter.indices[0], data, bytes));
  for (size_t i = 1; i < parameter.indices.size(); ++i) {
    std::vector<char> other(bytes);
    checkStatus(kerf_session_get_parameter(session, parameter.indices[i],
                                           other.data(), bytes));
    if (std::memcmp(other.data(), data, bytes) != 0)
      throw Error(KERF_MISMATCH, "copies of parameter \"" + parameter.name +
                                     "\" hold different values");
  }
}

void Weights::set(kerf_session_t *session, size_t index,
                  const char *data) const {
  const Parameter &parameter = all[index];
  for (int32_t i : parameter.indices)
    checkStatus(kerf_session_set_parameter(
        session, i, data, static_cast<size_t>(parameter.bytes())));
}

uint64_t Weights::fingerprint() const {
  if (knownFingerprint)
    return *knownFingerprint;
  // Which rank reads a tensor first, and so its place here, depends on the
  // mesh.
  std::vector<const Tensor *> byName;
  for (const Tensor &tensor : stored)
    byName.push_back(&tensor);
  std::sort(byName.begin(), byName.end(),
            [](const Tensor *a, const Tensor *b) { return a->name < b->name; });
  uint64_t hash = 0;
  auto add = [&](const void *data, size_t bytes) {
    hash = XXH3_64bits_withSeed(data, bytes, hash);
  };
  for (const Tensor *tensor : byName) {
    add(tensor->name.data(), tensor->name.size());
    int64_t type = tensor->dtype;
    add(&type, sizeof(type));
    add(tensor->shape.data(), tensor->shape.size() * sizeof(int64_t));
    add(files.at(tensor->file)->data() + tensor->offset,
        static_cast<size_t>(tensor->bytes()));
  }
  knownFingerprint = hash;
  return hash;
}

std::vector<char> Weights::gather(kerf_session_t *session,
                                  const Tensor &tensor) const {
  const char *original = files.at(tensor.file)->data() + tensor.offset;
  std::vector<char> data(original, original + tensor.bytes()), part;
  for (const Tensor::Part &each : tensor.parts) {
    if (each.sizes.empty()) {
      get(session, each.parameter, data.data());
      continue;
    }
    part.resize(static_cast<size_t>(all[each.parameter].bytes()));
    get(session, each.parameter, part.data());
    makeBoxCopy(each.sizes, Shape(each.sizes.size(), 0), tensor.shape,
                each.starts, each.sizes, dtypeSize(tensor.dtype))
        .run(part.data(), data.data());
  }
  return data;
}
