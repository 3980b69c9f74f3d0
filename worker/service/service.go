// Package service is the Temporal worker as a part: the worker process runs it, dev runs it beside the gateway, and a
// program of one's own runs it with tools of its own.
package service

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/history"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/schedule"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/internal/tool"
	"github.com/geminixiang/mikan/workflows"
)

// The types that a program with tools of its own needs.
type (
	// Tool is something that the model can do besides talking.
	Tool = tool.Tool
	// ToolCall is one call by the model.
	ToolCall = tool.Call
	// ToolResult is what the model reads.
	ToolResult = tool.Result
	// ToolSpec describes a tool to the model.
	ToolSpec = llm.ToolSpec
)

// Options of a service.
type Options struct {
	Backend   *backend.Backend
	Platforms *platforms.Platforms
	Metrics   *telemetry.Metrics
	Fallback  sandbox.Fallback // what happens where no sandbox is configured and bwrap does not work
	Tools     []Tool           // beside the built-in ones
	Say       func(string)     // told what an operator should know at start
}

// Service is a running worker: one Temporal worker for each queue served, and a sweeper.
type Service struct {
	workers []worker.Worker
	stop    context.CancelFunc
	swept   chan struct{}
	unnote  context.CancelFunc
	noted   sync.WaitGroup
}

// Concurrency of one process. Model calls mostly wait, so many run at once; tools use the machine.
const (
	concurrentActivities = 200
	concurrentTools      = 32
	concurrentWorkflows  = 100
)

// Start starts polling. It returns when the workers poll; errors are sentences about what cannot work here.
func Start(ctx context.Context, o Options) (*Service, error) {
	c := o.Backend.Config
	set, err := assemble(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Service{swept: make(chan struct{})}
	var queues []string
	if c.ServeQueues != config.QueuesTools {
		queues = append(queues, c.TaskQueue)
		w := worker.New(o.Backend.Client, c.TaskQueue, options(o, concurrentActivities))
		RegisterMain(w, set)
		s.workers = append(s.workers, w)
	}
	if c.ServeQueues != config.QueuesMain {
		queues = append(queues, run.ToolsQueue(c.TaskQueue))
		w := worker.New(o.Backend.Client, run.ToolsQueue(c.TaskQueue), options(o, concurrentTools))
		RegisterTools(w, set)
		s.workers = append(s.workers, w)
	}
	for i, w := range s.workers {
		if err := w.Start(); err != nil {
			for _, started := range s.workers[:i] {
				started.Stop()
			}
			return nil, err
		}
	}
	if c.Deployment == "" && c.ServeQueues != config.QueuesTools {
		o.Backend.Dispatcher.BeginHere()
	}
	// A worker that drains still serves what it has begun, so the notes go on when ctx has ended.
	noting, unnote := context.WithCancel(context.WithoutCancel(ctx))
	s.unnote = unnote
	for _, queue := range queues {
		s.noted.Go(func() { backend.NoteServing(noting, o.Backend.Store, queue, o.Backend.Log) })
	}
	ctx, s.stop = context.WithCancel(ctx)
	go func() {
		defer close(s.swept)
		var background sync.WaitGroup
		background.Go(func() { o.Platforms.Sweeper.Run(ctx) })
		background.Go(func() { (&history.Indexer{Store: o.Backend.Store, Log: o.Backend.Log}).Run(ctx) })
		if c.ServeQueues != config.QueuesTools {
			background.Go(func() {
				(&schedule.Keeper{Store: o.Backend.Store, Client: o.Backend.Client, Queue: c.TaskQueue, Waker: o.Backend.Dispatcher, Log: o.Backend.Log}).Run(ctx)
			})
		}
		background.Wait()
	}()
	return s, nil
}

// Stop takes no new work, lets what is open go on for the configured drain time, and returns.
func (s *Service) Stop() {
	s.stop()
	<-s.swept
	done := make(chan struct{})
	for _, w := range s.workers {
		go func() {
			w.Stop()
			done <- struct{}{}
		}()
	}
	for range s.workers {
		<-done
	}
	s.unnote()
	s.noted.Wait()
}

func options(o Options, concurrent int) worker.Options {
	c := o.Backend.Config
	w := worker.Options{
		Interceptors: []interceptor.WorkerInterceptor{&panics{log: o.Backend.Log}},
		// Cancellation reaches an activity with the answer to a heartbeat: one a second, or stop would be slow.
		MaxHeartbeatThrottleInterval:           time.Second,
		DefaultHeartbeatThrottleInterval:       time.Second,
		MaxConcurrentActivityExecutionSize:     concurrent,
		MaxConcurrentWorkflowTaskExecutionSize: concurrentWorkflows,
		WorkerStopTimeout:                      c.Settings.Drain,
		// A run whose code fails must end, and be settled by the reconciler, rather than stand still for ever.
		WorkflowPanicPolicy: worker.FailWorkflow,
	}
	if c.Deployment != "" {
		w.DeploymentOptions = worker.DeploymentOptions{
			UseVersioning:             true,
			Version:                   worker.WorkerDeploymentVersion{DeploymentName: c.Deployment, BuildID: c.BuildID},
			DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
		}
	}
	return w
}

// Set is every activity with its dependencies.
type Set struct {
	Sessions  *activities.Sessions
	Model     *activities.Model
	Tools     *activities.Tools
	Answers   *activities.Answers
	Schedules *activities.Schedules
	Captures  *activities.Captures
	Memory    *activities.MemoryFiles
}

// RegisterMain registers what the main queue serves.
func RegisterMain(r worker.Registry, set Set) {
	r.RegisterWorkflowWithOptions(workflows.Run, workflow.RegisterOptions{Name: run.WorkflowType})
	r.RegisterWorkflowWithOptions(workflows.CaptureMemory, workflow.RegisterOptions{Name: run.MemoryWorkflowType})
	r.RegisterWorkflowWithOptions(workflows.FireSchedule, workflow.RegisterOptions{Name: run.FireWorkflowType})
	r.RegisterActivityWithOptions(set.Sessions, activity.RegisterOptions{})
	r.RegisterActivityWithOptions(set.Model, activity.RegisterOptions{})
	r.RegisterActivityWithOptions(set.Answers, activity.RegisterOptions{})
	r.RegisterActivityWithOptions(set.Schedules, activity.RegisterOptions{})
	r.RegisterActivityWithOptions(set.Captures, activity.RegisterOptions{})
}

// RegisterTools registers what the tools queue serves: everything that touches the workspace.
func RegisterTools(r worker.Registry, set Set) {
	r.RegisterActivityWithOptions(set.Tools, activity.RegisterOptions{})
	r.RegisterActivityWithOptions(set.Memory, activity.RegisterOptions{})
}

func assemble(ctx context.Context, o Options) (Set, error) {
	c, s := o.Backend.Config, o.Backend.Store
	redactor := secret.NewRedactor(c.Secrets())
	builtin, err := builtinTools(ctx, o, redactor)
	if err != nil {
		return Set{}, err
	}
	builtin = append(builtin, &adapters.AttachTool{Delivery: o.Platforms.Delivery})
	registry, err := tool.NewRegistry(redactor, append(builtin, o.Tools...)...)
	if err != nil {
		return Set{}, err
	}
	workspace := &activities.Workspace{Root: c.Workspace}
	providers := backend.Providers(c)
	set := Set{
		Sessions: &activities.Sessions{Store: s, Settings: o.Backend.OfficeSettings, Model: c.Model.String(), Metrics: o.Metrics},
		Model: &activities.Model{
			Store: s, Providers: providers, Tools: registry, Delivery: o.Platforms.Delivery, Settings: o.Backend.OfficeSettings,
			Info:    catalogue(c),
			Metrics: o.Metrics, Log: o.Backend.Log,
		},
		Tools:   &activities.Tools{Store: s, Registry: registry, Workspace: workspace, Delivery: o.Platforms.Delivery, Metrics: o.Metrics, Log: o.Backend.Log},
		Answers: &activities.Answers{Store: s, Delivery: o.Platforms.Delivery, Waker: o.Backend.Dispatcher, Capture: activities.CaptureOff, Metrics: o.Metrics, Log: o.Backend.Log},
	}
	if c.ServeQueues != config.QueuesMain {
		set.Model.Workspace = workspace
	}
	set.Schedules = &activities.Schedules{Store: s, Waker: o.Backend.Dispatcher}
	set.Captures = &activities.Captures{
		Store: s, Providers: providers, Secrets: redactor, Info: set.Model.Info, Metrics: o.Metrics, Log: o.Backend.Log,
	}
	set.Memory = &activities.MemoryFiles{Store: s, Workspace: workspace, Metrics: o.Metrics, Log: o.Backend.Log}
	if c.ServeQueues == config.QueuesTools {
		return set, nil
	}
	ref, on := c.Jev()
	if !on {
		o.Say("Memory capture is off: there is no decision model. " + config.JevMend)
		return set, nil
	}
	set.Captures.Judge, err = backend.Judge(c, providers)
	if err != nil {
		return Set{}, err
	}
	o.Backend.Log.Info("memory capture is on", "gate", ref.String())
	set.Answers.Capture = activities.CaptureOn
	return set, nil
}

// builtinTools makes the tools that come with mikan. A worker that serves no tools still tells the model of them, and
// needs no sandbox for that.
func builtinTools(ctx context.Context, o Options, redactor *secret.Redactor) ([]tool.Tool, error) {
	c := o.Backend.Config
	where := sandbox.Config{Spec: c.Sandbox.String(), Hide: []string{c.DataDir}}
	var box sandbox.Sandbox
	if c.ServeQueues == config.QueuesMain {
		if where.Spec == "" {
			where.Spec = string(config.SandboxBwrap)
		}
		parsed, err := sandbox.Parse(where)
		if err != nil {
			return nil, err
		}
		box = parsed
	} else {
		choice, err := sandbox.Choose(ctx, where, o.Fallback)
		if err != nil {
			return nil, err
		}
		if choice.Warning != "" {
			o.Say(choice.Warning)
		}
		box = choice.Sandbox
	}
	tools := []tool.Tool{
		&tool.Bash{Sandbox: box, Redactor: redactor}, &tool.Read{Redactor: redactor}, &tool.Write{}, &tool.Edit{},
		&history.Tool{Reader: &history.Reader{Store: o.Backend.Store, Zone: time.UTC}},
	}
	for _, a := range o.Platforms.Adapters {
		if toolbox, ok := a.(adapters.Toolbox); ok {
			tools = append(tools, toolbox.Tools()...)
		}
	}
	return tools, nil
}

// catalogue tells what is known about a model: the built-in catalogue, corrected by the configuration.
func catalogue(c config.Config) func(llm.Ref) llm.ModelInfo {
	return func(ref llm.Ref) llm.ModelInfo {
		info := llm.Lookup(ref.Provider, ref.Model)
		o, ok := c.Settings.Models[ref.Provider+"/"+ref.Model]
		if !ok {
			return info
		}
		if o.ContextWindow > 0 {
			info.Window = int64(o.ContextWindow)
		}
		if o.MaxOutput > 0 {
			info.MaxOutput = int64(o.MaxOutput)
		}
		return info.WithPrices(o.InputUSD, o.OutputUSD, o.CacheReadUSD, o.CacheWriteUSD)
	}
}
