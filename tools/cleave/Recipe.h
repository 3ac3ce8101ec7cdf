//===- Recipe.h - A run, from a file
//---------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_RECIPE_H
#define CLEAVE_TOOLS_CLEAVE_RECIPE_H

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cleave::tool {

/// Adds --recipe, a file of values for flags of `app` that are not given
/// themselves. Comes before all of these flags, since CLI11 reads flags in the
/// order in which they were added. `run` gets what the file says to the
/// executable, as its own options.
void addRecipeFlag(CLI::App &app, std::vector<std::string> *run = nullptr);

/// How a flag of the executable is given to `cleave train`; empty if it is
/// none.
std::string describeRunFlag(const std::string &flag);

/// `given`, and those of `recipe` that it does not decide.
std::vector<std::string> mergeRunFlags(const std::vector<std::string> &given,
                                       const std::vector<std::string> &recipe);

/// What an executable cannot start without, in words; empty if nothing.
std::string getMissingRunFlags(const std::vector<std::string> &arguments);

} // namespace cleave::tool

#endif // CLEAVE_TOOLS_CLEAVE_RECIPE_H
