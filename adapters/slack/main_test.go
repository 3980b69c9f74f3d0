package slack_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// These tests mostly wait for deadlines and rates: more of them than cores can run at once. A number on the command
	// line wins.
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("5") // it is a number
	}
	os.Exit(m.Run())
}
