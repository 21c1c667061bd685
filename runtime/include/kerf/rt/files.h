//===- files.h - files that a command reads and writes ----------*- C++ -*-===//
//
// A model must not be replaced by its plan, nor one measurement by another. So
// before it does anything, a command lists the files that it will read and
// write; if two are the same file, or one cannot be written, the command is
// refused. Files are compared by identity, through links of both kinds and
// different spellings of a path; a file that does not exist yet is identified
// by its folder and name.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_FILES_H
#define KERF_RT_FILES_H

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::rt {

class UsedFiles {
public:
  /// A file that is read, or a folder of which every file is read. `flag` is
  /// its name in messages. Empty paths are ignored, here and below; a missing
  /// file is reported by its reader.
  void reads(const std::string &flag, const std::string &path);
  /// A file that is made or replaced. `usual` is what it may be called, for who
  /// gives a folder.
  void writes(const std::string &flag, const std::string &path,
              const std::string &usual = "");
  /// A package: a folder that is made or replaced as a whole.
  void replaces(const std::string &flag, const std::string &path);
  /// A folder that is made where it is missing, in one that exists, and files
  /// in it.
  void fills(const std::string &flag, const std::string &folder,
             const std::vector<std::string> &names);
  /// A folder in which files of these names are made and removed: PREFIX,
  /// digits, ENDING.
  void keeps(const std::string &flag, const std::string &folder,
             const std::string &prefix, const std::string &ending);

  /// Empty, or one line that begins with the path at fault and names both flags
  /// if two paths are one file. Leaves nothing behind.
  std::string check() const;
  /// The same, without trying whether files can be written.
  std::string checkDistinct() const;

private:
  enum class Kind { Input, File, Package, Folder, Series };
  struct Use {
    Kind kind;
    std::string flag, path;
    std::string prefix = {}, ending = {}, usual = {};
  };
  struct Placed;
  static bool collide(const Placed &output, const Placed &other);
  std::vector<Use> uses;
};

/// Why no files can be made in a folder; empty if they can: one is made and
/// removed.
std::string whyNotWritable(const std::string &folder);

} // namespace kerf::rt

#endif // KERF_RT_FILES_H
