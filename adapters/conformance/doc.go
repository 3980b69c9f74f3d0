// Package conformance holds the tests that every chat platform passes: all of mikan in one process, with the platform's
// real SDK talking to a local server of the project's, and a scripted model. A further platform adds one file here, its
// driver, and a line to the table.
package conformance
