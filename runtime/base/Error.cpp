//===- Error.cpp - how the runtime reports failure ------------------------===//
//
// Status objects of the C ABI, and the mapping of codes to exit codes.
//
//===----------------------------------------------------------------------===//
#include "Error.h"

#include <new>

using namespace kerf::rt;

int kerf::rt::exitCode(kerf_code_t code) {
  switch (code) {
  case KERF_OK:
    return 0;
  case KERF_INVALID_ARGUMENT:
  case KERF_OTHER_VERSION:
    return 2;
  case KERF_BAD_PACKAGE:
    return 3;
  case KERF_INTERNAL:
    return 70;
  default:
    return 5;
  }
}

// A static status, returned when no memory is left for another.
static kerf_status &outOfMemoryStatus() {
  static kerf_status status{Error(KERF_OUT_OF_MEMORY, "out of memory")};
  return status;
}

kerf_status_t kerf::rt::toStatus(const Error &error) noexcept {
  try {
    return new kerf_status{error};
  } catch (...) {
    return &outOfMemoryStatus();
  }
}

Error kerf::rt::currentError() noexcept {
  try {
    throw;
  } catch (const Error &error) {
    return error;
  } catch (const std::bad_alloc &) {
    return outOfMemoryStatus().error;
  } catch (const std::exception &error) {
    return Error(KERF_INTERNAL, cat("unexpected exception: ", error.what()));
  } catch (...) {
    return Error(KERF_INTERNAL, "unexpected exception");
  }
}

extern "C" {

kerf_code_t kerf_status_code(kerf_status_t status) {
  return status ? status->error.code : KERF_OK;
}
const char *kerf_status_message(kerf_status_t status) {
  return status ? status->error.message.c_str() : "";
}
const char *kerf_status_node(kerf_status_t status) {
  return status ? status->error.node.c_str() : "";
}
int32_t kerf_status_num_notes(kerf_status_t status) {
  return status ? static_cast<int32_t>(status->error.notes.size()) : 0;
}
const char *kerf_status_note(kerf_status_t status, int32_t index) {
  if (!status || index < 0 ||
      static_cast<size_t>(index) >= status->error.notes.size())
    return "";
  return status->error.notes[index].c_str();
}
int32_t kerf_status_exit_code(kerf_status_t status) {
  return status ? exitCode(status->error.code) : 0;
}
void kerf_status_free(kerf_status_t status) {
  if (status != &outOfMemoryStatus())
    delete status;
}

} // extern "C"
