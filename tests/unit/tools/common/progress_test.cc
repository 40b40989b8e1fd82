#include "common/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "common/terminal.h"

namespace mpfa::tools {
namespace {

// Puts a pseudo-terminal in the place of standard error.
class TerminalAsStderr {
 public:
  TerminalAsStderr() : master_(::posix_openpt(O_RDWR | O_NOCTTY)), saved_(::dup(STDERR_FILENO)) {
    ::grantpt(master_);
    ::unlockpt(master_);
    const int slave = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    ::dup2(slave, STDERR_FILENO);
    ::close(slave);
  }
  ~TerminalAsStderr() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(master_);
  }
  TerminalAsStderr(const TerminalAsStderr&) = delete;
  TerminalAsStderr& operator=(const TerminalAsStderr&) = delete;

  // What has been printed up to now, which must not hold a NUL.
  std::string read() const {
    std::fputc('\0', stderr);
    std::fflush(stderr);
    std::string text;
    for (char c = 0; ::read(master_, &c, 1) == 1 && c != '\0';) text += c;
    return text;
  }

 private:
  int master_;
  int saved_;
};

TEST(Progress, ShowsItselfAfterASecondAndWipesItself) {
  const TerminalAsStderr terminal;
  ASSERT_TRUE(is_terminal(stderr));
  {
    Progress progress("working", 3);
    progress.step();
    progress.set_label("still working");
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  }
  const std::string text = terminal.read();
  EXPECT_EQ(text.find("\rstill working  1/3  1 s"), 0u) << text;
  EXPECT_EQ(text.back(), '\r');
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const std::string wiped = text.substr(text.rfind('\r', text.size() - 2) + 1);
  EXPECT_EQ(wiped.find_first_not_of(" \r"), std::string::npos) << wiped;
}

TEST(Progress, ShortWorkShowsNothing) {
  const TerminalAsStderr terminal;
  { const Progress progress("working"); }
  EXPECT_EQ(terminal.read(), "");
}

TEST(Progress, FinishIsFinal) {
  Progress progress("working", 1);
  progress.finish();
  progress.step();
  progress.finish();
}

}  // namespace
}  // namespace mpfa::tools
