// Package platforms wires every platform that is configured to the two pipelines: it is the only place that knows all
// adapters.
package platforms

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/dispatch"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// Platforms holds the pipelines that all platforms share, and the platforms.
type Platforms struct {
	Intake   *adapters.Intake
	Delivery *adapters.Delivery
	Control  *adapters.Control
	Sweeper  *dispatch.Sweeper
	Adapters []adapters.Adapter // of the platforms whose tokens are set; the terminal is not among them
	log      *slog.Logger
}

// New wires them for one process. Every process that shows messages, the worker included, needs the delivery. Nothing is
// called on a platform yet. Errors are sentences about what is configured.
func New(b *backend.Backend, metrics *telemetry.Metrics) (*Platforms, error) {
	p := &Platforms{log: b.Log}
	services := adapters.Services{Store: b.Store, Process: uuid.NewString(), Metrics: metrics, Log: b.Log}
	var err error
	if p.Adapters, err = configured(b.Config, services); err != nil {
		return nil, err
	}
	outbounds := map[office.Platform]adapters.Outbound{office.Terminal: terminal.Outbound{}}
	for _, a := range p.Adapters {
		outbounds[a.Platform()] = a
	}
	p.Delivery = &adapters.Delivery{Store: b.Store, Metrics: metrics, Log: b.Log, Outbounds: outbounds}
	p.Control = &adapters.Control{Store: b.Store, Delivery: p.Delivery, Canceller: b.Dispatcher, Settings: b.OfficeSettings, DefaultModel: modelName(b.Config), PublicURL: PublicURL(b.Config)}
	p.Intake = &adapters.Intake{
		Store: b.Store, Waker: b.Dispatcher, Control: p.Control, Delivery: p.Delivery, Settings: b.OfficeSettings,
		Access:    &adapters.Access{Store: b.Store, Listed: adapters.ListedAccess(b.Config.Settings.Access)},
		AnswerAge: b.Config.Settings.AnswerAge, Metrics: metrics, Log: b.Log,
	}
	if _, on := b.Config.Jev(); on {
		if p.Intake.Judge, err = backend.Judge(b.Config, nil); err != nil {
			return nil, err
		}
	}
	p.Sweeper = &dispatch.Sweeper{
		Store: b.Store, Dispatcher: b.Dispatcher, Carrier: p.Control, Decider: p.Intake, Signs: p.Delivery,
		Platforms: slices.Sorted(maps.Keys(outbounds)), Retention: b.Config.Settings.Retention,
		Metrics: metrics, Log: b.Log,
	}
	return p, nil
}

func modelName(c config.Config) string {
	if c.Model == (llm.Ref{}) {
		return ""
	}
	return c.Model.String()
}

// PublicURL is where people reach the gateway; only those on its machine, when nothing says otherwise.
func PublicURL(c config.Config) string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return "http://" + c.Listen
}
