package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/sandbox"
)

func TestParseKnowsTheSandboxes(t *testing.T) {
	t.Parallel()
	for spec, accepted := range map[string]bool{
		"bwrap": true, "bwrap+net": true, "host": true, "docker:debian:12": true, "docker+net:ghcr.io/a/b@sha256:0": true,
		"": false, "Bwrap": false, "bwrap:x": false, "host+net": false, "host:x": false, "docker": false, "docker:": false,
		"docker:--privileged": false, "none": false, " host": false,
	} {
		s, err := sandbox.Parse(sandbox.Config{Spec: spec})
		switch {
		case accepted && (err != nil || s.Name() != spec):
			t.Errorf("%q is refused or renamed: %v", spec, err)
		case !accepted && fault.CodeOf(err) != fault.Invalid:
			t.Errorf("%q: %v, want a refusal", spec, err)
		case !accepted && !strings.Contains(err.Error(), "docker:<image>"):
			t.Errorf("%q: the refusal %q does not name the choices", spec, err)
		}
	}
}

func TestChooseFallsBackOnlyWhereAllowed(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // neither bwrap nor docker
	for _, test := range []struct {
		name, spec string
		fallback   sandbox.Fallback
		want       string
		warns      bool
		mends      string
	}{
		{"a server refuses", "", sandbox.Refuse, "", false, "MIKAN_SANDBOX"},
		{"one's own machine goes on, loudly", "", sandbox.HostLoudly, "host", true, ""},
		{"a configured sandbox is never replaced", "bwrap", sandbox.HostLoudly, "", false, "bubblewrap"},
		{"nor is docker", "docker:debian", sandbox.HostLoudly, "", false, "install"},
		{"host by choice works and warns", "host", sandbox.Refuse, "host", true, ""},
		{"a misspelt one is refused", "brwap", sandbox.HostLoudly, "", false, "bwrap"},
	} {
		choice, err := sandbox.Choose(t.Context(), sandbox.Config{Spec: test.spec}, test.fallback)
		if test.want == "" {
			if err == nil || !strings.Contains(err.Error(), test.mends) {
				t.Errorf("%s: error %v, want one that mentions %s", test.name, err, test.mends)
			}
			continue
		}
		if err != nil || choice.Sandbox.Name() != test.want || (choice.Warning != "") != test.warns {
			t.Errorf("%s: chose %+v, error %v", test.name, choice, err)
		}
	}
}

func TestChooseTakesBwrapWhereItWorks(t *testing.T) {
	bwrapOrSkip(t, "bwrap")
	choice, err := sandbox.Choose(t.Context(), sandbox.Config{}, sandbox.Refuse)
	if err != nil || choice.Sandbox.Name() != "bwrap" || choice.Warning != "" {
		t.Errorf("chose %+v, error %v", choice, err)
	}
}

func TestProbeTellsWhatABrokenSandboxSaid(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "bwrap"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s, err := sandbox.Parse(sandbox.Config{Spec: "bwrap"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Probe(t.Context())
	if err == nil || !strings.Contains(err.Error(), "No permissions") || !strings.Contains(err.Error(), "sysctl") {
		t.Errorf("the probe says %v", err)
	}
}
