//===- TestConfigs.h - Configs and checks that the tests share ------------===//
#ifndef CLEAVE_TEST_LIB_FRONTEND_TESTCONFIGS_H
#define CLEAVE_TEST_LIB_FRONTEND_TESTCONFIGS_H

#include "cleave/Frontend/Model.h"
#include <nlohmann/json.hpp>

namespace cleave::test {

/// The text of a file below test/data/configs.
std::string readText(const std::string &name);
nlohmann::json readJson(const std::string &name);

/// Names of golden/*.json.
std::vector<std::string> getGoldenCases();

/// A small config of the given model type.
nlohmann::json getSmallConfig(const std::string &modelType);
/// The small config with `changes` merged in; a change to "absent" drops a key.
nlohmann::json change(const std::string &modelType,
                      const nlohmann::json &changes);

/// Parses as "config.json"; a failure fails the test and gives an empty model.
Model parse(const nlohmann::json &config, const FrontendOptions &options = {});
/// The message that parsing gives, or "" if it succeeds.
std::string getError(llvm::StringRef text, const FrontendOptions &options = {});
std::string getError(const nlohmann::json &config,
                     const FrontendOptions &options = {});

/// Every piece of every parameter.
std::vector<const Piece *> getPieces(const Model &model);

/// What is wrong with the way the pieces cut up the checkpoint, or "": each
/// element of each listed tensor must belong to exactly one piece.
std::string checkCover(const Model &model);

} // namespace cleave::test

#endif // CLEAVE_TEST_LIB_FRONTEND_TESTCONFIGS_H
