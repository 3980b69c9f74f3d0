package main

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/process"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/web"
)

func (c *cli) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway: every platform whose tokens are set",
		Args:  arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return process.Ended(cmd.Context(), c.serve(cmd.Context()))
		},
	}
}

func (c *cli) serve(ctx context.Context) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	log := process.NewLog(cfg)
	p, err := process.Start(ctx, cfg, log, "mikan-gateway")
	if err != nil {
		return err
	}
	defer p.Close()
	ln, err := telemetry.Listen(ctx, "MIKAN_LISTEN", cfg.Listen, telemetry.ExactPort)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	p.Health.Mount(mux)
	if p.Config.PublicURL == "" {
		p.Config.PublicURL = "http://" + ln.Addr().String()
	}
	all, err := platforms.New(p.Backend, p.Metrics)
	if err != nil {
		return err
	}
	gateway := all.Gateway(mux, p.Health)
	group, ctx := errgroup.WithContext(ctx)
	web.New(ctx, p.Store, log).Mount(mux)
	group.Go(func() error { return telemetry.Serve(ctx, ln, mux, cfg.Settings.Drain, log) })
	group.Go(func() error {
		// Events are taken in while Temporal is away; the sweeper starts their runs when it is back.
		if err := p.AwaitTemporal(ctx, func(what string) { log.Warn(what) }); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	})
	group.Go(func() error {
		log.Info("the gateway is ready", "config", cfg, "address", "http://"+ln.Addr().String())
		all.Sweeper.Run(ctx)
		p.Health.Drain()
		log.Info("the gateway is ending: it takes nothing new and finishes what it has begun", "within", cfg.Settings.Drain.String())
		return nil
	})
	group.Go(func() error {
		gateway.Run(ctx)
		return nil
	})
	return group.Wait()
}
