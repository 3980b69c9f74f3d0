// Package conformance holds the tests that every chat platform passes: all of mikan in one process, with the platform's
// real SDK talking to a local server of the project's (package adaptertest), and a scripted model.
package conformance
