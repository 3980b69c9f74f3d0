package devstack

import "testing"

func TestRecentEnough(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]bool{
		"temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)\n":                 true,
		"temporal version 1.8.0 (Server 1.32.1, UI 2.54.1)":                   true,
		"temporal version 2.0.0 (Server 2.0.0, UI 3.0.0)":                     true,
		"temporal version 0.0.0-DEV (Server 1.31.0-150.0, UI 2.50.0)":         true,
		"temporal version 1.4.1 (Server 1.28.0, UI 2.39.0)":                   false,
		"temporal version 0.10.7 (server 1.21.5) (ui 2.17.2)":                 false,
		"temporal version 1.0.0 (Server 99999999999999999999.1.0, UI 2.39.0)": false,
		"bash: temporal: command not found":                                   false,
	} {
		if err := recentEnough(printed); (err == nil) != want {
			t.Errorf("%q: %v", printed, err)
		}
	}
}

func TestLastNumberOrdersVersions(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]int{
		"/usr/lib/postgresql/9/bin":           9,
		"/usr/lib/postgresql/17/bin":          17,
		"/opt/homebrew/opt/postgresql@16/bin": 16,
		"/usr/local/bin":                      0,
	} {
		if got := lastNumber(dir); got != want {
			t.Errorf("%s: %d, want %d", dir, got, want)
		}
	}
}

func TestAnAccountTraversesWhatItsClassMayEnter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A child of a directory that nobody but its owner may enter is out of reach for a stranger.
	stranger := otherAccount(12345, 12345)
	if stranger.reaches(dir) {
		t.Errorf("a stranger reaches %s", dir)
	}
	if !stranger.reaches("/") {
		t.Error("a stranger does not reach /")
	}
}
