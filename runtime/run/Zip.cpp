//===- Zip.cpp - members of a mapped zip archive --------------------------===//
//
// The directory is at the end: its end record is searched backwards over the
// longest comment; archives past 4 GiB have a second record and an extra field
// per entry with the 64-bit numbers.
//
//===----------------------------------------------------------------------===//
#include "Zip.h"

#include "../base/Error.h"

#include <cstring>
#include <limits>

#ifdef KERF_HAVE_ZLIB
#include <zlib.h>
#endif

using namespace kerf::rt;

namespace {
[[noreturn]] void bad(const std::string &reason) {
  throw Error(KERF_INVALID_ARGUMENT, "not a readable .npz file: " + reason);
}

/// Little-endian numbers at checked places.
class Bytes {
public:
  Bytes(const char *data, uint64_t size) : data(data), size(size) {}
  template <typename T> T at(uint64_t offset) const {
    T value;
    std::memcpy(&value, range(offset, sizeof(T)), sizeof(T));
    return value;
  }
  const char *range(uint64_t offset, uint64_t length) const {
    if (offset > size || length > size - offset)
      bad("an entry lies past the end of the file");
    return data + offset;
  }

private:
  const char *data;
  uint64_t size;
};

struct Directory {
  uint64_t offset = 0, entries = 0;
};

Directory findDirectory(const Bytes &in, uint64_t size) {
  constexpr uint64_t endBytes = 22, longestComment = 65535;
  if (size < endBytes)
    bad("shorter than an empty archive");
  uint64_t lowest =
      size > endBytes + longestComment ? size - endBytes - longestComment : 0;
  for (uint64_t at = size - endBytes;; --at) {
    if (in.at<uint32_t>(at) == 0x06054b50) {
      Directory directory{in.at<uint32_t>(at + 16), in.at<uint16_t>(at + 10)};
      if ((directory.offset == 0xffffffff || directory.entries == 0xffff) &&
          at >= 20 && in.at<uint32_t>(at - 20) == 0x07064b50) {
        uint64_t end64 = in.at<uint64_t>(at - 12);
        if (in.at<uint32_t>(end64) != 0x06064b50)
          bad("no 64-bit end of the directory where it should be");
        directory = {in.at<uint64_t>(end64 + 48), in.at<uint64_t>(end64 + 32)};
      }
      return directory;
    }
    if (at == lowest)
      bad("no end of a zip directory");
  }
}

/// Takes the 64-bit numbers of an entry's extra field, in their fixed order.
void readZip64(const Bytes &in, uint64_t extra, uint64_t length,
               ZipMember &member, uint64_t &headerOffset) {
  for (uint64_t at = extra; at + 4 <= extra + length;) {
    uint16_t id = in.at<uint16_t>(at), bytes = in.at<uint16_t>(at + 2);
    uint64_t field = at + 4, end = field + bytes;
    at = end;
    if (id != 1)
      continue;
    for (uint64_t *value : {&member.bytes, &member.packedBytes, &headerOffset})
      if (*value == 0xffffffff) {
        if (field + 8 > end)
          bad("a 64-bit size is missing");
        *value = in.at<uint64_t>(field);
        field += 8;
      }
  }
}
} // namespace

std::vector<ZipMember> kerf::rt::readZip(const MappedFile &file) {
  Bytes in(file.data(), file.size());
  Directory directory = findDirectory(in, file.size());
  std::vector<ZipMember> members;
  uint64_t at = directory.offset, packed = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (in.at<uint32_t>(at) != 0x02014b50)
      bad(cat("no directory entry at byte ", at));
    ZipMember member;
    uint16_t flags = in.at<uint16_t>(at + 8);
    member.method = in.at<uint16_t>(at + 10);
    member.crc = in.at<uint32_t>(at + 16);
    member.packedBytes = in.at<uint32_t>(at + 20);
    member.bytes = in.at<uint32_t>(at + 24);
    uint16_t nameBytes = in.at<uint16_t>(at + 28),
             extraBytes = in.at<uint16_t>(at + 30),
             commentBytes = in.at<uint16_t>(at + 32);
    uint64_t header = in.at<uint32_t>(at + 42);
    member.name.assign(in.range(at + 46, nameBytes), nameBytes);
    readZip64(in, at + 46 + nameBytes, extraBytes, member, header);
    at += uint64_t(46) + nameBytes + extraBytes + commentBytes;
    if (flags & 1)
      bad("member " + member.name + " is encrypted");
    if (member.method != 0 && member.method != 8)
      bad(cat("member ", member.name, " has compression method ", member.method,
              ", expected stored or deflated"));
    if (in.at<uint32_t>(header) != 0x04034b50)
      bad("member " + member.name + " has no header where it should be");
    uint64_t data = header + 30 + in.at<uint16_t>(header + 26) +
                    in.at<uint16_t>(header + 28);
    member.packed = in.range(data, member.packedBytes);
    // A range of the file that many members share would be unpacked for each of
    // them.
    packed += member.packedBytes;
    if (packed > file.size())
      bad("its members overlap");
    if (member.method == 0 && member.bytes != member.packedBytes)
      bad(cat("member ", member.name, " is stored in ", member.packedBytes,
              " bytes, expected ", member.bytes));
    members.push_back(std::move(member));
  }
  return members;
}

void kerf::rt::checkStored(const ZipMember &member) {
#ifdef KERF_HAVE_ZLIB
  constexpr uint64_t longest = uint64_t(4) << 30, piece = uint64_t(4) << 20;
  if (member.bytes > longest)
    return;
  uLong crc = 0;
  for (uint64_t at = 0; at < member.bytes; at += piece) {
    const char *from = member.packed + at;
    uint64_t bytes = std::min(piece, member.bytes - at);
    crc = crc32_z(crc, reinterpret_cast<const Bytef *>(from), bytes);
    forgetMapped(from, bytes);
  }
  if (crc != member.crc)
    bad("member " + member.name + " is damaged: its checksum differs");
#endif
}

std::vector<char> kerf::rt::inflateMember(const ZipMember &member) {
#ifdef KERF_HAVE_ZLIB
  // Deflate packs at most 258 bytes into two bits.
  if (member.bytes / 1032 > member.packedBytes + 16)
    bad(cat("member ", member.name, " claims ", member.bytes, " bytes in ",
            member.packedBytes));
  std::vector<char> data(member.bytes);
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    throw std::bad_alloc();
  uint64_t in = 0, out = 0;
  int state = Z_OK;
  constexpr uint64_t max = std::numeric_limits<uInt>::max();
  while (state == Z_OK) {
    uint64_t inNow = std::min(max, member.packedBytes - in);
    uint64_t outNow = std::min(max, member.bytes - out);
    stream.next_in =
        reinterpret_cast<Bytef *>(const_cast<char *>(member.packed + in));
    stream.avail_in = static_cast<uInt>(inNow);
    stream.next_out = reinterpret_cast<Bytef *>(data.data() + out);
    stream.avail_out = static_cast<uInt>(outNow);
    state = inflate(&stream, Z_NO_FLUSH);
    in += inNow - stream.avail_in;
    out += outNow - stream.avail_out;
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || out != member.bytes)
    bad("member " + member.name + " is damaged");
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef *>(data.data()), out);
  if (crc != member.crc)
    bad("member " + member.name + " is damaged: its checksum differs");
  return data;
#else
  bad("member " + member.name + " is compressed, this build has no zlib");
#endif
}
