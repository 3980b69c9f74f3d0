package service

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/geminixiang/mikan/internal/fault"
)

// panics keeps what a panicking activity says out of Temporal: the SDK would put the value, which may quote a message,
// and the whole stack into the run's history. The log gets the place, and of the value its type alone.
type panics struct {
	interceptor.WorkerInterceptorBase
	log *slog.Logger
}

func (p *panics) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &recovering{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, log: p.log}
}

type recovering struct {
	interceptor.ActivityInboundInterceptorBase
	log *slog.Logger
}

func (r *recovering) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (result any, err error) {
	defer func() {
		if value := recover(); value != nil {
			info := activity.GetInfo(ctx)
			r.log.Error("an activity panicked", "activity", info.ActivityType.Name, "workflow", info.WorkflowExecution.ID,
				"attempt", info.Attempt, "panic", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
			err = temporal.NewApplicationError("a panic; the worker's log has its place", string(fault.Internal))
		}
	}()
	return r.Next.ExecuteActivity(ctx, in)
}
