//===- Schemas.h - names and versions of file formats -----------*- C++ -*-===//
//
// Every file that Kerf writes for a later command says its format and the
// format's version, as "kerf.plan/1". A reader takes its own version, and older
// ones where it says so (`oldest`): what another one means is not guessed
// (docs/Compatibility.md). Includes only the C++ library, since the runtime
// includes this file.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FORMAT_SCHEMAS_H
#define KERF_FORMAT_SCHEMAS_H

#include <algorithm>
#include <string>
#include <string_view>

namespace kerf {

struct Schema {
  std::string_view name;
  int version;
  /// What the user of a file of another version can do.
  std::string_view remedy;
  /// The oldest version that is read as well, where newer ones only have more
  /// keys; 0: none.
  int oldest = 0;

  std::string text() const { return text(version); }
  std::string text(int number) const {
    return std::string(name) + "/" + std::to_string(number);
  }
};

inline constexpr Schema packageSchema{"kerf.package", 1,
                                      "compile the model again"};
inline constexpr Schema sizesSchema{"kerf.sizes", 1, "compile the model again"};
inline constexpr Schema ranksSchema{"kerf.ranks", 1, "lower the program again"};
inline constexpr Schema planSchema{"kerf.plan", 1, "plan the model again"};
inline constexpr Schema machineSchema{"kerf.machine", 2,
                                      "measure the machine again", 1};
inline constexpr Schema runSchema{"kerf.run", 1, "run the package again"};
inline constexpr Schema checkpointSchema{"kerf.checkpoint", 3,
                                         "train again from the start", 1};
// What programs of others read from stdout; Kerf itself does not.
inline constexpr Schema trainSchema{"kerf.train", 1, ""};
inline constexpr Schema verifySchema{"kerf.verify", 1, ""};
inline constexpr Schema inspectSchema{"kerf.inspect", 1, ""};
inline constexpr Schema explainSchema{"kerf.explain", 1, ""};
inline constexpr Schema whatIfSchema{"kerf.what-if", 1, ""};
inline constexpr Schema generateSchema{"kerf.generate", 1, ""};

/// All of them: no other file spells the name of one.
inline constexpr const Schema *allSchemas[] = {
    &packageSchema, &sizesSchema,   &ranksSchema,      &planSchema,
    &machineSchema, &runSchema,     &checkpointSchema, &trainSchema,
    &verifySchema,  &inspectSchema, &explainSchema,    &whatIfSchema,
    &generateSchema};

enum class SchemaMatch { Same, OtherVersion, OtherFormat };

/// Compares what a file says with what its reader takes. Numbers of versions
/// may have any length, and no leading zero but 0 itself.
inline SchemaMatch matchSchema(const Schema &schema, std::string_view found) {
  if (found == schema.text())
    return SchemaMatch::Same;
  for (int number = schema.oldest; number > 0 && number < schema.version;
       ++number)
    if (found == schema.text(number))
      return SchemaMatch::Same;
  size_t begin = schema.name.size() + 1;
  if (found.size() <= begin || found.substr(0, begin - 1) != schema.name ||
      found[begin - 1] != '/')
    return SchemaMatch::OtherFormat;
  std::string_view number = found.substr(begin);
  bool isNumber = std::all_of(number.begin(), number.end(),
                              [](char c) { return c >= '0' && c <= '9'; });
  return isNumber && (number.size() == 1 || number[0] != '0')
             ? SchemaMatch::OtherVersion
             : SchemaMatch::OtherFormat;
}

/// Why a file that says `found` is refused, behind the name of the member that
/// says it: `is "kerf.plan/2", newer than ...`. Empty for the reader's own.
inline std::string schemaMismatch(const Schema &schema,
                                  std::string_view found) {
  if (found.empty())
    return "is missing, expected \"" + schema.text() + "\"";
  std::string said = "is \"" + std::string(found) + "\"";
  switch (matchSchema(schema, found)) {
  case SchemaMatch::Same:
    return "";
  case SchemaMatch::OtherFormat:
    return said + ", expected \"" + schema.text() + "\"";
  case SchemaMatch::OtherVersion:
    break;
  }
  std::string_view number = found.substr(schema.name.size() + 1);
  std::string own = std::to_string(schema.version);
  bool isNewer =
      number.size() != own.size() ? number.size() > own.size() : number > own;
  return said + (isNewer ? ", newer than \"" : ", older than \"") +
         schema.text() +
         "\", which this Kerf reads: " + std::string(schema.remedy) +
         ", or use the Kerf that wrote it";
}

} // namespace kerf

#endif // KERF_FORMAT_SCHEMAS_H
