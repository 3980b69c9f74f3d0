// Command worker is mikan's Temporal worker: it executes runs. Any number of them may run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/process"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/worker/service"
)

func main() {
	dataDir := flag.String("data-dir", "", "use the dev of this directory when the environment names no database or Temporal")
	flag.Parse()
	ctx := process.UntilSignal()
	if err := process.Ended(ctx, run(ctx, *dataDir)); err != nil {
		var refused *config.Error
		if errors.As(err, &refused) {
			for _, problem := range refused.Problems {
				fmt.Fprintln(os.Stderr, "worker: "+problem)
			}
			os.Exit(2)
		}
		fmt.Fprintln(os.Stderr, "worker: "+err.Error())
		os.Exit(fault.ExitCode(fault.CodeOf(err)))
	}
}

func run(ctx context.Context, dataDir string) error {
	cfg, err := config.Load(os.Getenv, dataDir)
	if err != nil {
		return err
	}
	needs := []config.Need{config.NeedDatabase}
	if cfg.ServeQueues != config.QueuesTools {
		needs = append(needs, config.NeedModel)
	}
	if err := cfg.Require(needs...); err != nil {
		return err
	}
	log := process.NewLog(cfg)
	p, err := process.Start(ctx, cfg, log, "mikan-worker")
	if err != nil {
		return err
	}
	defer p.Close()
	ln, err := telemetry.Listen(ctx, "MIKAN_WORKER_LISTEN", cfg.WorkerListen, telemetry.ExactPort)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	// Health and metrics can be asked for as long as anything is at work.
	serving, served := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error { return telemetry.Serve(serving, ln, p.Health.Handler(), 0, log) })
	group.Go(func() error {
		defer served()
		say := func(what string) { log.Warn(what) }
		if err := p.AwaitTemporal(ctx, say); err != nil {
			return err
		}
		all, err := platforms.New(p.Backend, p.Metrics)
		if err != nil {
			return err
		}
		s, err := service.Start(ctx, service.Options{
			Backend: p.Backend, Platforms: all, Metrics: p.Metrics, Fallback: sandbox.Refuse, Say: say,
		})
		if err != nil {
			return err
		}
		log.Info("the worker is ready", "config", cfg, "health", "http://"+ln.Addr().String())
		<-ctx.Done()
		p.Health.Drain()
		log.Info("the worker is ending: it takes nothing new and finishes what it has begun", "within", cfg.Settings.Drain.String())
		s.Stop()
		return nil
	})
	return group.Wait()
}
