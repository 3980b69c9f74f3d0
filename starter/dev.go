package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/devstack"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/process"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/web"
	"github.com/geminixiang/mikan/worker/service"
)

func (c *cli) devCommand() *cobra.Command {
	var noPrompt bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine: Postgres, Temporal, worker, gateway and a prompt to talk to",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &dev{cli: c}
			if !noPrompt && term.IsTerminal(int(os.Stdin.Fd())) {
				d.prompt = os.Stdin
			}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&noPrompt, "no-prompt", false, "serve without a prompt, also on a terminal")
	return cmd
}

// dev is everything in one process, but for Postgres and Temporal, which are its children.
type dev struct {
	cli    *cli
	prompt *os.File // nil without a terminal

	cfg     config.Config
	process *process.Process
	gateway net.Listener
	worker  net.Listener
}

func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

func (d *dev) run(ctx context.Context) (err error) {
	cfg, err := config.LoadForDev(d.cli.getenv, d.cli.dataDir)
	if err != nil {
		return err
	}
	stack, err := devstack.Start(ctx, devstack.Options{
		DataDir: cfg.DataDir, SearchAttributes: run.AttributeNames(), Log: process.NewLog(cfg), Progress: os.Stdout, Getenv: d.cli.getenv,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	if d.cfg, err = d.configure(stack); err != nil {
		return err
	}
	if err := migrateSchema(ctx, d.cfg); err != nil {
		return err
	}
	log := process.NewLog(d.cfg)
	if d.process, err = process.Start(ctx, d.cfg, log, "mikan-dev"); err != nil {
		return err
	}
	defer d.process.Close()
	if d.gateway, err = listen(ctx, "MIKAN_LISTEN", d.cfg.Listen); err != nil {
		return err
	}
	if d.worker, err = listen(ctx, "MIKAN_WORKER_LISTEN", d.cfg.WorkerListen); err != nil {
		return err
	}
	return d.serve(ctx, stack)
}

// configure reads the configuration again with the addresses of the stack in place.
func (d *dev) configure(stack *devstack.Stack) (config.Config, error) {
	addresses := stack.Env()
	return config.LoadForDev(func(name string) string {
		if value, ok := addresses[name]; ok {
			return value
		}
		return d.cli.getenv(name)
	}, d.cli.dataDir)
}

// migrate brings the database to this binary's schema.
func migrateSchema(ctx context.Context, cfg config.Config) error {
	s, err := backend.OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	_, _, err = s.Migrate(ctx)
	return err
}

func listen(ctx context.Context, name, address string) (net.Listener, error) {
	ln, err := telemetry.Listen(ctx, name, address, telemetry.OrFreePort)
	if err == nil && ln.Addr().String() != address {
		say("%s is taken; using %s", address, ln.Addr())
	}
	return ln, err
}

func (d *dev) serve(ctx context.Context, stack *devstack.Stack) error {
	p, drain := d.process, d.cfg.Settings.Drain
	if err := p.AwaitTemporal(ctx, func(what string) { say("%s", what) }); err != nil {
		return err
	}
	p.Config.PublicURL = d.publicURL()
	all, err := platforms.New(p.Backend, p.Metrics)
	if err != nil {
		return err
	}
	worker, err := service.Start(ctx, service.Options{
		Backend: p.Backend, Platforms: all, Metrics: p.Metrics, Fallback: sandbox.HostLoudly,
		Say: func(what string) { say("WARNING: %s", what) },
	})
	if err != nil {
		return err
	}
	defer worker.Stop()
	if err := d.announce(stack); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	mux := http.NewServeMux()
	p.Health.Mount(mux)
	gateway := all.Gateway(mux, p.Health)
	web.New(ctx, p.Store, p.Log).Mount(mux)
	group.Go(func() error { return telemetry.Serve(ctx, d.gateway, mux, drain, p.Log) })
	group.Go(func() error { return telemetry.Serve(ctx, d.worker, p.Health.Handler(), drain, p.Log) })
	group.Go(func() error {
		gateway.Run(ctx)
		return nil
	})
	if d.prompt != nil {
		group.Go(func() error {
			defer end()
			return talk(ctx, &asker{backend: p.Backend, intake: all.Intake, live: os.Stdout}, d.prompt)
		})
	}
	return group.Wait()
}

// announce says where everything is and leaves the addresses for other commands.
func (d *dev) announce(stack *devstack.Stack) error {
	addresses := stack.Env()
	addresses["MIKAN_WORKSPACE"] = d.cfg.Workspace
	addresses["MIKAN_TASK_QUEUE"] = d.cfg.TaskQueue
	addresses["MIKAN_LISTEN"] = d.gateway.Addr().String()
	addresses["MIKAN_WORKER_LISTEN"] = d.worker.Addr().String()
	addresses["MIKAN_PUBLIC_URL"] = d.publicURL()
	if err := config.WriteDevEnv(d.cfg.DataDir, addresses); err != nil {
		return err
	}
	if stack.TemporalUIURL != "" {
		say("Temporal UI   %s", stack.TemporalUIURL)
	}
	say("session view  %s/session/", d.publicURL())
	say("metrics       http://%s/metrics (worker: http://%s/metrics)", d.gateway.Addr(), d.worker.Addr())
	say("data          %s", d.cfg.DataDir)
	if d.cfg.Model.Provider == llm.ProviderDemo {
		say("model         %s: no model key is set, so a built-in demo answers; set ANTHROPIC_API_KEY or OPENAI_API_KEY for a real one", d.cfg.Model)
	} else {
		say("model         %s", d.cfg.Model)
	}
	say("ready")
	return nil
}

func (d *dev) publicURL() string {
	if d.cfg.PublicURL != "" {
		return d.cfg.PublicURL
	}
	return "http://" + d.gateway.Addr().String()
}
