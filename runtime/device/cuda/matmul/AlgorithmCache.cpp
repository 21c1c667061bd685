//===- AlgorithmCache.cpp - results of measurements, on disk --------------===//
#include "AlgorithmCache.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace kerf::rt;
namespace fs = std::filesystem;

static std::string plain(std::string text) {
  for (char &c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-')
      c = '_';
  return text;
}

static std::string chooseFolder(const std::string &given) {
  if (!given.empty())
    return given == "none" ? "" : given;
  auto variable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (std::string own = variable("KERF_CUDA_CACHE"); !own.empty())
    return own == "none" ? "" : own;
  if (std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/kerf";
  std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/kerf";
}

AlgorithmCache::AlgorithmCache(const std::string &library,
                               const std::string &gpu,
                               const std::string &folder) {
  std::string place = chooseFolder(folder);
  if (place.empty())
    return;
  file = place + "/" + plain(library) + "-" + plain(gpu) + ".txt";
  read(entries);
}

void AlgorithmCache::read(std::map<std::string, std::string> &into) const {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    size_t at = line.find(" = ");
    if (at == std::string::npos)
      continue;
    std::string bytes, hex = line.substr(at + 3);
    bool good = hex.size() % 2 == 0 && !hex.empty() &&
                hex.find_first_not_of("0123456789abcdef") == std::string::npos;
    for (size_t i = 0; good && i < hex.size(); i += 2)
      bytes.push_back(
          static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    if (good)
      into[line.substr(0, at)] = bytes;
  }
}

std::string AlgorithmCache::find(const std::string &key) const {
  auto it = entries.find(key);
  return it == entries.end() ? "" : it->second;
}

void AlgorithmCache::set(const std::string &key, const std::string &bytes) {
  entries[key] = bytes;
  changed = true;
}

void AlgorithmCache::save() {
  if (!changed || file.empty())
    return;
  changed = false;
  std::error_code error;
  fs::create_directories(fs::path(file).parent_path(), error);
  std::map<std::string, std::string> all;
  read(all); // with entries of other processes
  for (auto &[key, bytes] : entries)
    all[key] = bytes;
  // Ranks may be threads.
  std::string temporary = file + "." + std::to_string(::getpid()) + "." +
                          std::to_string(reinterpret_cast<uintptr_t>(this));
  {
    std::ofstream out(temporary);
    static constexpr char digits[] = "0123456789abcdef";
    for (auto &[key, bytes] : all) {
      out << key << " = ";
      for (unsigned char byte : bytes)
        out << digits[byte >> 4] << digits[byte & 15];
      out << "\n";
    }
    if (!out.good())
      error = std::make_error_code(std::errc::io_error);
  }
  if (!error)
    fs::rename(temporary, file, error);
  if (error)
    fs::remove(temporary, error);
}
