//===- Program.cpp - what a program of ranks says of itself ---------------===//
#include "Program.h"

#include "../package/Placement.h"
#include "kerf/Format/Schemas.h"
#include "kerf/rt/ranks.h"

#include <cstring>
#include <set>

using namespace kerf::rt;

static void parseVersions(const JsonReader &in) {
  std::string schema = in["schema"].string();
  std::string wrong = kerf::schemaMismatch(kerf::ranksSchema, schema);
  if (!wrong.empty() && kerf::matchSchema(kerf::ranksSchema, schema) ==
                            kerf::SchemaMatch::OtherVersion)
    throw Error(KERF_OTHER_VERSION, in["schema"].where() + ": " + wrong);
  if (!wrong.empty())
    in["schema"].fail(wrong);
  int64_t abi = in["abi"].integer(1, JsonReader::maxInteger);
  if (abi > KERF_RANKS_ABI_VERSION)
    throw Error(KERF_OTHER_VERSION,
                cat(in["abi"].where(), ": is ", abi, ", newer than ",
                    KERF_RANKS_ABI_VERSION, ", up to which this Kerf runs: ",
                    kerf::ranksSchema.remedy));
}

static RanksParameter parseParameter(const JsonReader &entry,
                                     const Mesh &mesh) {
  RanksParameter parameter;
  parameter.name = entry["name"].string();
  parsePlacement(entry, mesh, /*allowTime=*/false, parameter);
  parameter.stages =
      entry.list<int64_t>("stages", [&](const JsonReader &stage) {
        return stage.integer(0, mesh.numStages() - 1);
      });
  return parameter;
}

RanksProgram kerf::rt::parseRanksProgram(const char *text) {
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(text, text + std::strlen(text));
  } catch (const nlohmann::json::exception &error) {
    throw Error(KERF_BAD_PACKAGE, cat("program: ", error.what()));
  }
  RanksProgram program;
  JsonReader::Members asked;
  JsonReader in(root, "program: ", &asked);
  parseVersions(in);
  program.mesh = parseMesh(in["mesh"]);
  const Mesh &mesh = program.mesh;
  program.parts = in.list<BoundaryPart>("parts", [&](const JsonReader &entry) {
    BoundaryPart part;
    parsePlacement(entry, mesh, /*allowTime=*/true, part);
    return part;
  });
  std::set<std::string> names;
  program.parameters =
      in.list<RanksParameter>("parameters", [&](const JsonReader &entry) {
        RanksParameter made = parseParameter(entry, mesh);
        if (!names.insert(made.name).second)
          entry["name"].fail(cat("\"", made.name, "\" is twice in the list"));
        return made;
      });
  program.collectives =
      in.list<CollectiveDesc>("collectives", [&](const JsonReader &entry) {
        return parseCollective(entry, mesh);
      });
  program.channels =
      in.list<ChannelDesc>("channels", [&](const JsonReader &entry) {
        return parseChannel(entry, mesh);
      });
  in.refuseUnknown();
  return program;
}
