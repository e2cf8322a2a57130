package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// commandLine is the environment variable by which the test binary becomes the command, in a process of its own.
const commandLine = "BERTH_TEST_COMMAND_LINE"

// becomes says what the test binary does in the place of tests, by the environment variable that is set; the function takes
// its value.
var becomes = map[string]func(value string){
	commandLine: func(line string) {
		os.Args = append([]string{"berth"}, strings.Split(line, "\n")...)
		main()
	},
}

// TestMain keeps the progress of slow machines out of what tests expect on standard error.
func TestMain(m *testing.M) {
	for variable, f := range becomes {
		if value, ok := os.LookupEnv(variable); ok {
			f(value)
			return
		}
	}
	progressAfter = time.Hour
	os.Exit(m.Run())
}
