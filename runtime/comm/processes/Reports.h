//===- Reports.h - data as bytes for rank 0 ---------------------*- C++ -*-===//
//
// Counters and the like as bytes. All processes of a job run the same build:
// the layout is this machine's, the lengths are checked.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_COMM_PROCESSES_REPORTS_H
#define KERF_RT_COMM_PROCESSES_REPORTS_H

#include "../Comm.h"

#include <cstring>

namespace kerf::rt {

/// Appends plain values and lists of them.
class Packer {
public:
  template <typename T> void add(const T &value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text.append(reinterpret_cast<const char *>(&value), sizeof(T));
  }
  template <typename T> void add(const std::vector<T> &values) {
    static_assert(std::is_trivially_copyable_v<T>);
    add(static_cast<uint64_t>(values.size()));
    text.append(reinterpret_cast<const char *>(values.data()),
                values.size() * sizeof(T));
  }
  std::string take() { return std::move(text); }

private:
  std::string text;
};

/// Reads them back; throws KERF_MISMATCH where the bytes end too soon.
class Unpacker {
public:
  explicit Unpacker(const std::string &text) : text(text) {}
  template <typename T> void get(T &value) { read(&value, sizeof(T)); }
  template <typename T> void get(std::vector<T> &values) {
    uint64_t count = 0;
    get(count);
    if (count > (text.size() - at) / sizeof(T))
      tooShort();
    values.resize(count);
    read(values.data(), count * sizeof(T));
  }

private:
  [[noreturn]] static void tooShort() {
    throw Error(KERF_MISMATCH, "a report of a rank is too short");
  }
  void read(void *to, size_t bytes) {
    if (bytes > text.size() - at)
      tooShort();
    if (bytes) // an empty vector has no place
      std::memcpy(to, text.data() + at, bytes);
    at += bytes;
  }
  const std::string &text;
  size_t at = 0;
};

std::string packCounters(const CommCounters &counters);
/// Throws KERF_MISMATCH unless they are of `spec`.
CommCounters unpackCounters(const std::string &text, const WorldSpec &spec);

} // namespace kerf::rt

#endif // KERF_RT_COMM_PROCESSES_REPORTS_H
