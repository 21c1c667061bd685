//===- files.h - what a command reads and writes ----------------*- C++ -*-===//
//
// A model must not be replaced by its plan, nor a measurement by another one.
// A command therefore says, before it does anything, which files it is going to
// read and to write; two that are one file are refused, as is what cannot be
// written. Files are compared by identity: links of both kinds and other
// spellings of a path are seen through, and what does not exist yet is known by
// its folder and its name.
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
  /// A file that is read, or a folder of which every file is. `flag` is what
  /// messages call it. Empty paths are ignored, here and below; what does not
  /// exist is the business of who reads it.
  void reads(const std::string &flag, const std::string &path);
  /// A file that is made or replaced.
  void writes(const std::string &flag, const std::string &path);
  /// A package: a folder that is made or replaced as a whole.
  void replaces(const std::string &flag, const std::string &path);
  /// A folder that is made where it is missing (`deep`: with those above it),
  /// and files in it.
  void fills(const std::string &flag, const std::string &folder,
             const std::vector<std::string> &names, bool deep = false);
  /// A folder in which files of these names are made and removed: PREFIX,
  /// digits, ENDING.
  void keeps(const std::string &flag, const std::string &folder,
             const std::string &prefix, const std::string &ending);

  /// Empty, or one line that begins with the path at fault and, where two are
  /// one file, names both flags. Leaves nothing behind.
  std::string check() const;
  /// The same without trying whether anything can be written.
  std::string checkDistinct() const;

private:
  enum class Kind { Input, File, Package, Folder, Series };
  struct Use {
    Kind kind;
    std::string flag, path;
    bool deep = false;
    std::string prefix, ending;
  };
  struct Placed;
  static bool collide(const Placed &output, const Placed &other);
  std::vector<Use> uses;
};

/// Empty if files can be made in a folder: one is, and removed. Else why not.
std::string whyNotWritable(const std::string &folder);

} // namespace kerf::rt

#endif // KERF_RT_FILES_H
