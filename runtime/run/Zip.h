//===- Zip.h - members of a mapped zip archive ------------------*- C++ -*-===//
//
// An .npz file is a zip archive of .npy files. Stored members are used in place
// in the mapping, deflated ones are inflated once and their checksum is
// compared. Every offset and length is checked against the file before it is
// used, and a member that claims more than deflate can have packed is refused
// before anything is allocated.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_RUN_ZIP_H
#define KERF_RT_RUN_ZIP_H

#include "../base/MappedFile.h"

#include <cstdint>
#include <vector>

namespace kerf::rt {

struct ZipMember {
  std::string name;
  int method = 0; ///< 0 stored, 8 deflated
  uint32_t crc = 0;
  uint64_t packedBytes = 0, bytes = 0;
  const char *packed = nullptr; ///< in the mapping
};

/// The archive's directory. Throws KERF_INVALID_ARGUMENT, without the file's
/// name in front.
std::vector<ZipMember> readZip(const MappedFile &file);

/// Reads a stored member of up to 4 GiB and throws if its checksum differs;
/// larger ones would keep a run waiting.
void checkStored(const ZipMember &member);

/// A deflated member's bytes.
std::vector<char> inflateMember(const ZipMember &member);

} // namespace kerf::rt

#endif // KERF_RT_RUN_ZIP_H
