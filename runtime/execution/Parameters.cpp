//===- Parameters.cpp - each rank's part of the weights -------------------===//
//
// A parameter is a box of the stored tensor (its view, or all of it in another
// shape), a part is a box of the parameter: two boxes compose to one.
//
//===----------------------------------------------------------------------===//
#include "Parameters.h"

#include "../base/Boxes.h"
#include "../base/MappedFile.h"
#include "Philox.h"

#include <cstring>

using namespace kerf::rt;

static uint16_t halfBits(double value) {
  _Float16 half = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}

static uint16_t bfloatBits(double value) {
  float f = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (f != f)
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T> static void fillAs(void *data, int64_t count, T value) {
  for (int64_t i = 0; i < count; ++i)
    static_cast<T *>(data)[i] = value;
}

static void fillSplat(void *data, int64_t count, kerf_dtype_t dtype,
                      const SplatValue &value) {
  switch (dtype) {
  case KERF_F32:
    return fillAs(data, count, static_cast<float>(value.real));
  case KERF_F64:
    return fillAs(data, count, value.real);
  case KERF_F16:
    return fillAs(data, count, halfBits(value.real));
  case KERF_BF16:
    return fillAs(data, count, bfloatBits(value.real));
  case KERF_I8:
    return fillAs(data, count, static_cast<int8_t>(value.integer));
  case KERF_I16:
    return fillAs(data, count, static_cast<int16_t>(value.integer));
  case KERF_I32:
    return fillAs(data, count, static_cast<int32_t>(value.integer));
  case KERF_I64:
    return fillAs(data, count, value.integer);
  case KERF_U8:
    return fillAs(data, count, static_cast<uint8_t>(value.integer));
  case KERF_U16:
    return fillAs(data, count, static_cast<uint16_t>(value.integer));
  case KERF_U32:
    return fillAs(data, count, static_cast<uint32_t>(value.integer));
  case KERF_U64:
    return fillAs(data, count, static_cast<uint64_t>(value.integer));
  case KERF_BOOL:
    return fillAs(data, count, static_cast<uint8_t>(value.integer != 0));
  default: // a code
    return fillAs(data, count, static_cast<uint8_t>(value.integer));
  }
}

// The box in the stored tensor: shifted by the view, or the parameter's own
// shape over the same elements.
ParameterStore::Source ParameterStore::find(int64_t index, int64_t rank) const {
  const Manifest &m = package->manifest;
  const Parameter &p = m.parameters[index];
  Part part = partOf(m.mesh, p.sharding, p.globalShape, rank, 0);
  const StoredTensor &tensor = package->stored[index];
  Source source{tensor.data, p.globalShape, part.starts, part.sizes};
  bool stored = tensor.data || p.source == Parameter::Seeded;
  if (stored && index < static_cast<int64_t>(given.size()) && given[index])
    source.data = given[index];
  if (stored && p.hasView) {
    source.stored = tensor.shape;
    for (size_t d = 0; d < source.starts.size(); ++d)
      source.starts[d] += p.viewStarts[d];
  }
  return source;
}

// Values that are generated instead of stored (a splat, or drawn from a seed):
// `box` says which elements of the stored tensor go where; the rest of `data`
// is zero.
static void fill(const Parameter &p, const BoxCopy &box, void *data) {
  if (p.source == Parameter::Splat)
    return fillSplat(data, numElements(p.localShape), p.dtype, p.splat);
  SeededTensor values(p.seeded, p.tensor);
  int64_t bytes = dtypeSize(p.dtype);
  box.forEachRun([&](int64_t from, int64_t to) {
    for (int64_t i = 0; i < box.runBytes; i += bytes)
      fillSplat(static_cast<char *>(data) + to + i, 1, p.dtype,
                {values.at((from + i) / bytes), 0});
  });
}

std::shared_ptr<DeviceMemory>
ParameterStore::copy(int64_t index, const Source &source, Device &device) {
  const Parameter &p = package->manifest.parameters[index];
  std::shared_ptr<DeviceMemory> memory =
      device.allocate(numBytes(p.localShape, p.dtype),
                      ("parameter " + p.name).c_str()); // zeroed
  BoxCopy box = makeBoxCopy(source.stored, source.starts, p.localShape,
                            Shape(source.starts.size(), 0), source.sizes,
                            dtypeSize(p.dtype));
  if (source.data) {
    device.uploadBox(box, source.data, memory->data);
    forget(index);
  } else if (device.onHost()) {
    fill(p, box, memory->data);
  } else if (p.source != Parameter::Splat || !p.splat.isZero()) {
    std::vector<char> host(static_cast<size_t>(memory->bytes));
    fill(p, box, host.data());
    device.upload(host.data(), memory->data, memory->bytes);
  }
  copied += memory->bytes;
  return memory;
}

ParameterView ParameterStore::get(int64_t index, int64_t rank, Device &device) {
  const Parameter &p = package->manifest.parameters[index];
  Source source = find(index, rank);
  ParameterView result;
  result.elements = numElements(p.localShape);
  result.key = cat(index, ":", shapeString(source.starts), "+",
                   shapeString(source.sizes));
  if (p.isMutable || !device.onHost()) {
    result.owner = copy(index, source, device);
    result.data = static_cast<DeviceMemory *>(result.owner.get())->data;
    result.key += cat(" of rank ", rank);
    return result;
  }
  int64_t elementBytes = dtypeSize(p.dtype), offset = 0;
  if (source.data && source.sizes == p.localShape &&
      !(index < static_cast<int64_t>(given.size()) && given[index]) &&
      isContiguousBox(source.stored, source.starts, source.sizes, offset)) {
    const char *data = source.data + offset * elementBytes;
    // Generated code counts on aligned buffers, libraries do not.
    int64_t alignment = p.libraryOnly ? elementBytes : KERF_BUFFER_ALIGNMENT;
    if (reinterpret_cast<uintptr_t>(data) % alignment == 0) {
      result.data = data;
      result.isMapped = true;
      return result;
    }
  }
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<Entry> &place = entries[result.key];
    if (!place)
      place = std::make_shared<Entry>();
    entry = place;
  }
  std::lock_guard<std::mutex> lock(entry->mutex);
  std::shared_ptr<DeviceMemory> memory = entry->memory.lock();
  if (!memory)
    entry->memory = memory = copy(index, source, device);
  result.data = memory->data;
  result.owner = memory;
  return result;
}

void ParameterStore::fillSplat(const Parameter &p, void *data) {
  ::fillSplat(data, numElements(p.localShape), p.dtype, p.splat);
}

void ParameterStore::forget(int64_t index) {
  const StoredTensor &tensor = package->stored[index];
  if (tensor.data)
    forgetMapped(tensor.data,
                 static_cast<size_t>(numBytes(
                     tensor.shape, package->manifest.parameters[index].dtype)));
}

ParameterStore::Derived
ParameterStore::derived(const std::string &signature,
                        const std::function<Derived()> &compute) {
  std::shared_ptr<DerivedEntry> entry;
  {
    std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<DerivedEntry> &place = derivedEntries[signature];
    if (!place)
      place = std::make_shared<DerivedEntry>();
    entry = place;
  }
  std::lock_guard<std::mutex> lock(entry->mutex);
  Derived result;
  for (const auto &[index, memory] : entry->derived)
    if (auto held = memory.lock())
      result[index] = held;
  if (result.empty() || result.size() != entry->derived.size()) {
    result = compute();
    entry->derived.clear();
    for (const auto &[index, memory] : result)
      entry->derived[index] = memory;
  }
  return result;
}

int64_t ParameterStore::copiedBytes() { return copied.load(); }

void ParameterStore::release() {
  std::lock_guard<std::mutex> lock(mutex);
  entries.clear();
  derivedEntries.clear();
}
