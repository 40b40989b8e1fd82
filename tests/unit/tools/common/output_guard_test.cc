#include "common/output_guard.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "../temp_folder.h"
#include "io/atomic_file.h"
#include "mpfa/check.h"
#include "support/sanitizer.h"

namespace mpfa::tools {
namespace {

// Death tests run in a process of their own; signals and handlers stay there.
class OutputGuardDeathTest : public ::testing::Test {
 protected:
  OutputGuardDeathTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(OutputGuardDeathTest, WithoutAGuardASignalKillsAsUsual) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          install_signal_handlers();
          std::raise(signal);
          std::exit(0);
        },
        ::testing::KilledBySignal(signal), "");
  }
}

TEST_F(OutputGuardDeathTest, InsideAGuardASignalWaits) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        {
          const OutputGuard guard("any file");
          std::raise(SIGINT);
          std::fputs("still here\n", stderr);
        }
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGINT), "still here");
}

TEST_F(OutputGuardDeathTest, NestedGuardsWaitForTheOuterOne) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        const OutputGuard* outer = new OutputGuard("one");
        {
          const OutputGuard inner("two");
          std::raise(SIGTERM);
        }
        std::fputs("still here\n", stderr);
        delete outer;
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "still here");
}

TEST_F(OutputGuardDeathTest, AnIgnoredSignalStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);  // as nohup does
        install_signal_handlers();
        std::raise(SIGHUP);
        std::exit(5);
      },
      ::testing::ExitedWithCode(5), "");
}

TEST_F(OutputGuardDeathTest, NoTemporaryFileOutlivesTheProgram) {
  const TempFolder folder;
  EXPECT_EXIT(
      {
        install_signal_handlers();
        {
          const OutputGuard guard(folder.file("out"));
          internal::AtomicFile file(folder.file("out"));
          file.write("half of it");
          std::raise(SIGINT);
        }
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGINT), "");
  EXPECT_TRUE(folder.entries().empty());
}

// Opening a pipe that nobody reads waits for ever; Ctrl-C must still end the program.
TEST_F(OutputGuardDeathTest, APipeHoldsNothingBack) {
  // It delivers signals when a system call returns, and this one does not.
  if (testing::kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer holds signals back";
  const TempFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EXIT(
      {
        install_signal_handlers();
        ::alarm(60);  // a program that hangs fails this test by another signal
        std::thread([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          ::kill(::getpid(), SIGTERM);
        }).detach();
        write_text_file(pipe, "text");
        std::exit(0);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(CheckWritable, LeavesNothingBehind) {
  const TempFolder folder;
  check_writable(folder.file("new"));
  EXPECT_TRUE(folder.entries().empty());
  write_file(folder.file("old"), "kept");
  check_writable(folder.file("old"));
  EXPECT_EQ(read_file(folder.file("old")), "kept");
}

TEST(CheckWritable, SaysSoAtOnce) {
  const TempFolder folder;
  EXPECT_THROW(check_writable(folder.file("no/such/folder")), IoError);
  EXPECT_THROW(check_writable(folder.path().string()), IoError);
  EXPECT_THROW(check_writable(""), IoError);
}

// Opening a FIFO would wait for a reader, and closing it would end the reader's input.
TEST(CheckWritable, DoesNotTouchPipesAndDevices) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
  check_writable(folder.file("fifo"));
  check_writable("/dev/null");
}

TEST(WriteTextFile, ReplacesTheWholeFile) {
  const TempFolder folder;
  write_file(folder.file("f"), "an older and longer text");
  write_text_file(folder.file("f"), "new");
  EXPECT_EQ(read_file(folder.file("f")), "new");
  EXPECT_THROW(write_text_file(folder.file("no/f"), "x"), IoError);
}

}  // namespace
}  // namespace mpfa::tools
