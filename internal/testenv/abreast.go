package testenv

import "flag"

// Abreast lets so many tests of a package run at once, for a TestMain: tests that mostly wait, for deadlines, rates and
// other processes, leave the cores to others meanwhile. A number on the command line wins.
func Abreast(tests string) {
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		if err := parallel.Value.Set(tests); err != nil {
			panic(err)
		}
	}
}
