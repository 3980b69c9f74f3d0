package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/dispatch"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/telemetry"
)

func (c *cli) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check database, Temporal, model key and sandbox, and say how to mend what is broken",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := c.examine(cmd.Context())
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), findings); err != nil {
					return err
				}
			} else if err := printFindings(cmd.OutOrStdout(), findings); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Verdict == broken {
					return &exitError{exitFailed}
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// verdict is what an examination found.
type verdict string

const (
	fine   verdict = "ok"
	note   verdict = "note" // works, but an operator may want to know
	broken verdict = "broken"
)

type finding struct {
	Part    string  `json:"part"`
	Verdict verdict `json:"verdict"`
	Said    string  `json:"said"`
}

func printFindings(out io.Writer, findings []finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintf(out, "%-7s %-18s %s\n", f.Verdict, f.Part, f.Said); err != nil {
			return err
		}
	}
	return nil
}

// checkTime bounds each examination, so that doctor answers also where nothing does.
const checkTime = 10 * time.Second

// examine looks at every part and goes on after a broken one.
func (c *cli) examine(ctx context.Context) []finding {
	cfg, err := c.config()
	if err != nil {
		findings := []finding{}
		for _, problem := range problemsOf(err) {
			findings = append(findings, finding{"configuration", broken, problem})
		}
		return findings
	}
	check := func(part string, examine func(context.Context, config.Config) finding) finding {
		ctx, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		f := examine(ctx, cfg)
		f.Part = part
		return f
	}
	findings := []finding{
		{"configuration", fine, "readable"},
		check("database", examineDatabase),
		check("temporal", examineTemporal),
		check("search attributes", examineAttributes),
		check("worker", examineWorker),
		check("model", examineModel),
		check("sandbox", examineSandbox),
		check("workspace", examineWorkspace),
		check("platforms", examinePlatforms),
		check("memory capture", examineJev),
	}
	return append(findings, examineAdapters(ctx, cfg)...)
}

// examineAdapters asks each platform that is configured.
func examineAdapters(ctx context.Context, cfg config.Config) []finding {
	if len(cfg.Platforms()) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*checkTime)
	defer cancel()
	s, err := backend.OpenStore(ctx, cfg)
	if err != nil {
		return []finding{{Part: "platforms", Verdict: broken, Said: "not asked: the database is needed for that"}}
	}
	defer s.Close()
	metrics, err := telemetry.NewMetrics(quiet(cfg))
	if err != nil {
		return []finding{{Part: "platforms", Verdict: broken, Said: err.Error()}}
	}
	adapters, err := platforms.Configured(cfg, s, metrics, quiet(cfg))
	if err != nil {
		return []finding{{Part: "platforms", Verdict: broken, Said: err.Error()}}
	}
	var findings []finding
	for _, a := range adapters {
		for _, f := range a.Check(ctx) {
			said := finding{Part: string(a.Platform()) + " " + f.What, Verdict: fine, Said: f.Note}
			if f.Err != nil {
				said.Verdict, said.Said = broken, f.Err.Error()
			}
			findings = append(findings, said)
		}
	}
	return findings
}

func problemsOf(err error) []string {
	if refused, ok := err.(*config.Error); ok {
		return refused.Problems
	}
	return []string{err.Error()}
}

func examineDatabase(ctx context.Context, cfg config.Config) finding {
	s, err := backend.OpenStore(ctx, cfg)
	if err != nil {
		return finding{Verdict: broken, Said: err.Error()}
	}
	defer s.Close()
	if err := s.CheckSchema(ctx); err != nil {
		return finding{Verdict: broken, Said: err.Error()}
	}
	return finding{Verdict: fine, Said: cfg.DatabaseTarget() + ", schema up to date"}
}

const temporalMend = "start a Temporal server and set TEMPORAL_ADDRESS, or run: go run ./starter dev"

// temporalAddress is where the client connects: the SDK's default when nothing names a server.
func temporalAddress(cfg config.Config) string {
	return cmp.Or(cfg.Temporal.Address, client.DefaultHostPort)
}

func examineTemporal(ctx context.Context, cfg config.Config) finding {
	c, err := backend.Dial(cfg, backend.Instruments{})
	if err != nil {
		return finding{Verdict: broken, Said: err.Error()}
	}
	defer c.Close()
	if _, err := c.CheckHealth(ctx, nil); err != nil {
		return finding{Verdict: broken, Said: fmt.Sprintf("not reachable at %s; %s", temporalAddress(cfg), temporalMend)}
	}
	return finding{Verdict: fine, Said: fmt.Sprintf("%s, namespace %s", temporalAddress(cfg), cfg.Temporal.Namespace)}
}

func examineAttributes(ctx context.Context, cfg config.Config) finding {
	c, err := backend.Dial(cfg, backend.Instruments{})
	if err != nil {
		return finding{Verdict: broken, Said: err.Error()}
	}
	defer c.Close()
	missing, err := dispatch.MissingAttributes(ctx, c, cfg.Temporal.Namespace)
	switch {
	case err != nil:
		return finding{Verdict: broken, Said: "cannot be looked up: Temporal is not reachable"}
	case missing:
		return finding{Verdict: broken, Said: "not registered yet; a worker registers them when it starts: go run ./worker"}
	}
	return finding{Verdict: fine, Said: "registered"}
}

func examineWorker(ctx context.Context, cfg config.Config) finding {
	b, err := backend.Open(ctx, cfg, quiet(cfg), backend.Instruments{})
	if err != nil {
		return finding{Verdict: broken, Said: "cannot be looked up: " + err.Error()}
	}
	defer b.Close()
	served, err := b.Served(ctx)
	switch {
	case err != nil:
		return finding{Verdict: broken, Said: "cannot be looked up: " + err.Error()}
	case !served:
		return finding{Verdict: note, Said: fmt.Sprintf("nothing serves the queue %q; start one: go run ./worker", cfg.TaskQueue)}
	}
	return finding{Verdict: fine, Said: fmt.Sprintf("polls the queue %q", cfg.TaskQueue)}
}

func examineModel(_ context.Context, cfg config.Config) finding {
	switch {
	case cfg.Model == (llm.Ref{}):
		return finding{Verdict: broken, Said: "no model key is set; set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, or MIKAN_MODEL with a server's base URL"}
	case cfg.Model.Provider == llm.ProviderDemo:
		return finding{Verdict: note, Said: "the built-in demo answers; set ANTHROPIC_API_KEY or OPENAI_API_KEY for a real model"}
	case !cfg.Serves(cfg.Model.Provider):
		return finding{Verdict: broken, Said: fmt.Sprintf("%s has no key", cfg.Model)}
	}
	return finding{Verdict: fine, Said: cfg.Model.String()}
}

func examineSandbox(ctx context.Context, cfg config.Config) finding {
	choice, err := sandbox.Choose(ctx, sandbox.Config{Spec: cfg.Sandbox.String(), Hide: []string{cfg.DataDir}}, sandbox.Refuse)
	switch {
	case err != nil:
		return finding{Verdict: broken, Said: err.Error()}
	case choice.Warning != "":
		return finding{Verdict: note, Said: choice.Warning}
	}
	return finding{Verdict: fine, Said: choice.Sandbox.Name()}
}

func examineWorkspace(_ context.Context, cfg config.Config) finding {
	if err := os.MkdirAll(cfg.Workspace, 0o700); err != nil {
		return finding{Verdict: broken, Said: fmt.Sprintf("%s cannot be used (%s); set MIKAN_WORKSPACE", cfg.Workspace, fault.CodeOf(err))}
	}
	probe, err := os.CreateTemp(cfg.Workspace, ".doctor-*")
	if err != nil {
		return finding{Verdict: broken, Said: fmt.Sprintf("%s is not writable; set MIKAN_WORKSPACE or mend its permissions", cfg.Workspace)}
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	return finding{Verdict: fine, Said: cfg.Workspace}
}

func examinePlatforms(ctx context.Context, cfg config.Config) finding {
	set := cfg.Platforms()
	if waits := unserved(ctx, cfg); waits != "" {
		return finding{Verdict: note, Said: waits}
	}
	if len(set) == 0 {
		return finding{Verdict: note, Said: "no platform's token is set; the terminal (mikan ask) works all the same"}
	}
	return finding{Verdict: fine, Said: fmt.Sprint(set)}
}

// unserved tells what waits for a token that is not set; empty: nothing does, or it cannot be looked up.
func unserved(ctx context.Context, cfg config.Config) string {
	s, err := backend.OpenStore(ctx, cfg)
	if err != nil {
		return ""
	}
	defer s.Close()
	waiting, err := s.Unserved(ctx, append(cfg.Platforms(), office.Terminal), time.Minute)
	if err != nil {
		return ""
	}
	var parts []string
	for _, platform := range slices.Sorted(maps.Keys(waiting)) {
		parts = append(parts, fmt.Sprintf("%d words or decisions wait for %s; set its token", waiting[platform], platform))
	}
	return strings.Join(parts, "; ")
}

func examineJev(_ context.Context, cfg config.Config) finding {
	if ref, ok := cfg.Jev(); ok {
		return finding{Verdict: fine, Said: "gate: " + ref.String()}
	}
	return finding{Verdict: note, Said: "off: there is no decision model. " + config.JevMend}
}
