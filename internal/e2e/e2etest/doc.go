// Package e2etest runs mikan's real processes for tests: the CLI and the worker as binaries, on the tests' shared servers or
// on servers of the test's own that may be killed. It also holds what must be true of any installation once all has
// settled, whatever happened to it.
package e2etest
