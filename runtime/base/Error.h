//===- Error.h - how the runtime reports failure ----------------*- C++ -*-===//
//
// Inside the runtime failures are exceptions of one class with everything the
// C ABI hands out: code, one line, node, notes. They never cross the ABI nor a
// frame of program.so: guard() turns them into a status.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_BASE_ERROR_H
#define KERF_RUNTIME_BASE_ERROR_H

#include "kerf/rt/runtime.h"

#include <cstdint>
#include <exception>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace kerf::rt {

struct Error : std::exception {
  kerf_code_t code;
  std::string message;
  std::string node;
  std::vector<std::string> notes;
  int64_t blamed = -1; ///< the rank whose failure it is, where one is known

  Error(kerf_code_t code, std::string message, std::string node = "",
        std::vector<std::string> notes = {})
      : code(code), message(std::move(message)), node(std::move(node)),
        notes(std::move(notes)) {}
  const char *what() const noexcept override { return message.c_str(); }
};

/// Concatenates anything that streams.
template <typename... Ts> std::string cat(const Ts &...parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// "2x3x4", or "scalar".
inline std::string shapeString(const std::vector<int64_t> &shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "x" : "") + std::to_string(shape[i]);
  return text;
}

/// Exit code of docs/Runtime.md for a failure.
int exitCode(kerf_code_t code);

} // namespace kerf::rt

/// What the C ABI's status handle points to.
struct kerf_status {
  kerf::rt::Error error;
};

namespace kerf::rt {

kerf_status_t toStatus(const Error &error) noexcept;
/// The exception being handled as an Error (bad_alloc and others included).
Error currentError() noexcept;

/// Runs `body`, gives its exception as a status.
template <typename Body> kerf_status_t guard(Body &&body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return toStatus(currentError());
  }
}

} // namespace kerf::rt

#endif // KERF_RUNTIME_BASE_ERROR_H
