package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// commandLine is the environment variable by which the test binary becomes the command, in a process of its own.
const commandLine = "BERTH_TEST_COMMAND_LINE"

// TestMain keeps the progress of slow machines out of what tests expect on standard error.
func TestMain(m *testing.M) {
	if line, ok := os.LookupEnv(commandLine); ok {
		os.Args = append([]string{"berth"}, strings.Split(line, "\n")...)
		main()
		return
	}
	progressAfter = time.Hour
	os.Exit(m.Run())
}
