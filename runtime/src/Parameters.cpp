//===- Parameters.cpp - each rank's part of the weights -------------------===//
//
// A parameter is a box of the stored tensor (its view, or all of it in another
// shape), a part is a box of the parameter: two boxes compose to one.
//
//===----------------------------------------------------------------------===//
#include "Parameters.h"

#include "Boxes.h"

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
                      double value) {
  switch (dtype) {
  case KERF_F32:
    return fillAs(data, count, static_cast<float>(value));
  case KERF_F64:
    return fillAs(data, count, value);
  case KERF_F16:
    return fillAs(data, count, halfBits(value));
  case KERF_BF16:
    return fillAs(data, count, bfloatBits(value));
  case KERF_I8:
    return fillAs(data, count,
                  static_cast<int8_t>(static_cast<int64_t>(value)));
  case KERF_I16:
    return fillAs(data, count,
                  static_cast<int16_t>(static_cast<int64_t>(value)));
  case KERF_I32:
    return fillAs(data, count,
                  static_cast<int32_t>(static_cast<int64_t>(value)));
  case KERF_I64:
    return fillAs(data, count, static_cast<int64_t>(value));
  case KERF_U8:
    return fillAs(data, count,
                  static_cast<uint8_t>(static_cast<int64_t>(value)));
  case KERF_U16:
    return fillAs(data, count,
                  static_cast<uint16_t>(static_cast<int64_t>(value)));
  case KERF_U32:
    return fillAs(data, count,
                  static_cast<uint32_t>(static_cast<int64_t>(value)));
  case KERF_U64:
    return fillAs(data, count, static_cast<uint64_t>(value));
  case KERF_BOOL:
    return fillAs(data, count, static_cast<uint8_t>(value != 0));
  }
}

ParameterView ParameterStore::get(int64_t index, int64_t rank, Device &device) {
  const Manifest &m = package->manifest;
  const Parameter &p = m.parameters[index];
  Part part = partOf(m.mesh, p.sharding, p.globalShape, rank, 0);
  const StoredTensor &tensor = package->stored[index];
  // The box in the stored tensor: shifted by the view, or the parameter's own
  // shape over the same elements.
  Shape stored = p.globalShape, starts = part.starts;
  if (tensor.data && p.hasView) {
    stored = tensor.shape;
    for (size_t d = 0; d < starts.size(); ++d)
      starts[d] += p.viewStarts[d];
  }
  ParameterView result;
  result.elements = numElements(p.localShape);
  std::string key =
      cat(index, ":", shapeString(part.starts), "+", shapeString(part.sizes));
  bool whole = part.sizes == p.localShape;
  int64_t elementBytes = dtypeSize(p.dtype), offset = 0;
  if (tensor.data && whole &&
      isContiguousBox(stored, starts, part.sizes, offset)) {
    const char *data = tensor.data + offset * elementBytes;
    // Generated code counts on aligned buffers, libraries do not.
    int64_t alignment = p.libraryOnly ? elementBytes : KERF_BUFFER_ALIGNMENT;
    if (reinterpret_cast<uintptr_t>(data) % alignment == 0) {
      result.data = data;
      result.key = key;
      return result;
    }
  }
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<Entry> &place = entries[key];
    if (!place)
      place = std::make_shared<Entry>();
    entry = place;
  }
  std::lock_guard<std::mutex> lock(entry->mutex);
  std::shared_ptr<DeviceMemory> &memory = entry->memory;
  if (!memory) {
    std::shared_ptr<DeviceMemory> fresh =
        device.allocate(numBytes(p.localShape, p.dtype),
                        ("parameter " + p.name).c_str()); // zeroed
    if (tensor.data)
      makeBoxCopy(stored, starts, p.localShape, Shape(starts.size(), 0),
                  part.sizes, elementBytes)
          .run(tensor.data, fresh->data);
    else
      fillSplat(fresh->data, result.elements, p.dtype, p.splat);
    copied += fresh->bytes;
    memory = fresh;
  }
  result.data = memory->data;
  result.key = key;
  result.owner = memory;
  return result;
}

std::shared_ptr<ParameterStore::Derived>
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
  if (!entry->derived)
    entry->derived = std::make_shared<Derived>(compute());
  return entry->derived;
}

int64_t ParameterStore::copiedBytes() { return copied.load(); }

void ParameterStore::release() {
  std::lock_guard<std::mutex> lock(mutex);
  entries.clear();
  derivedEntries.clear();
}
