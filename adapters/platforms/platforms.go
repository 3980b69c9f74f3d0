// Package platforms wires every platform that is configured to the two pipelines: it is the only place that knows all
// adapters.
package platforms

import (
	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/terminal"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/dispatch"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/telemetry"
)

// Platforms holds the pipelines that all platforms share.
type Platforms struct {
	Intake   *adapters.Intake
	Delivery *adapters.Delivery
	Control  *adapters.Control
	Sweeper  *dispatch.Sweeper
}

// New wires them for one process. Every process that shows messages, the worker included, needs the delivery.
func New(b *backend.Backend, metrics *telemetry.Metrics) *Platforms {
	p := &Platforms{}
	p.Delivery = &adapters.Delivery{
		Store: b.Store, Metrics: metrics, Log: b.Log,
		Outbounds: map[office.Platform]adapters.Outbound{office.Terminal: terminal.Outbound{}},
	}
	p.Control = &adapters.Control{Store: b.Store, Delivery: p.Delivery, Canceller: b.Dispatcher, Settings: b.OfficeSettings, PublicURL: PublicURL(b.Config)}
	p.Intake = &adapters.Intake{Store: b.Store, Waker: b.Dispatcher, Control: p.Control, Settings: b.OfficeSettings, Metrics: metrics, Log: b.Log}
	p.Sweeper = &dispatch.Sweeper{
		Store: b.Store, Dispatcher: b.Dispatcher, Carrier: p.Control, Retention: b.Config.Settings.Retention, Metrics: metrics, Log: b.Log,
	}
	return p
}

// PublicURL is where people reach the gateway; only those on its machine, when nothing says otherwise.
func PublicURL(c config.Config) string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return "http://" + c.Listen
}
