// Which findings of the simulator's checks end a launch.
#pragma once

#include <string>
#include <string_view>

namespace mpfa::sim {

struct Checks {
  bool races = true;          // unordered accesses to shared memory, one of them a write
  bool uninitialized = true;  // reads of shared memory that nothing has written
  bool async = true;     // what asynchronous operations and their issuers do to each other's data
  bool barriers = true;  // barrier divergence named in deadlocks; ends before peers' accesses
  bool bounds = true;    // no effect: what is outside of every allocation always faults

  static Checks none() { return {false, false, false, false, false}; }
};

// "all", "none", or names of the fields above with commas between: "races,async". Throws
// InvalidArgument for anything else.
Checks parse_checks(std::string_view text);
// What parse_checks() reads.
std::string to_string(const Checks& checks);

}  // namespace mpfa::sim
