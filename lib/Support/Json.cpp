//===- Json.cpp - JSON from files of others -------------------------------===//
#include "kerf/Support/Json.h"

using namespace llvm;

/// The deepest nesting of arrays and objects; brackets in strings do not count.
static unsigned depthOf(StringRef text) {
  unsigned depth = 0, max = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        at += text[at] == '\\';
    } else if (c == '[' || c == '{') {
      max = std::max(max, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return max;
}

Expected<json::Value> kerf::parseJson(StringRef text) {
  if (unsigned depth = depthOf(text); depth > kMaxJsonDepth)
    return createStringError("nested " + Twine(depth) +
                             " deep, expected at most " + Twine(kMaxJsonDepth));
  return json::parse(text);
}
