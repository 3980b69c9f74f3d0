package config_test

import (
	"testing"

	"github.com/geminixiang/mikan/internal/sandbox"
)

// What the configuration takes is what the sandbox understands: here each form is handed on as it was written.
func TestEverySandboxOfTheConfigurationCanBeMade(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"bwrap", "bwrap+net", "docker:debian:13", "docker+net:ghcr.io/a/b@sha256:0", "host"} {
		c := mustLoad(t, map[string]string{"MIKAN_SANDBOX": spec})
		box, err := sandbox.Parse(sandbox.Config{Spec: c.Sandbox.String()})
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if box.Name() != spec {
			t.Errorf("%s makes %s", spec, box.Name())
		}
	}
}
