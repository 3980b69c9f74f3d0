package config

import "testing"

func TestDataDirectoriesOfEachSystem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ goos, home, xdg, want string }{
		"Linux":                {"linux", "/home/u", "", "/home/u/.local/state/mikan"},
		"Linux with XDG":       {"linux", "/home/u", "/state", "/state/mikan"},
		"a relative XDG value": {"linux", "/home/u", "state", "/home/u/.local/state/mikan"},
		"macOS":                {"darwin", "/Users/u", "", "/Users/u/Library/Application Support/mikan"},
	} {
		got, err := dataDir(c.goos, func(name string) string {
			return map[string]string{"HOME": c.home, "XDG_STATE_HOME": c.xdg}[name]
		})
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
