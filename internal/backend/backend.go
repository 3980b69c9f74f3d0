// Package backend connects a process to what all of them need: the database and Temporal.
package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"

	"github.com/geminixiang/mikan/internal/codec"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/dispatch"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/run"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
)

// Backend is a connected process.
type Backend struct {
	Config     config.Config
	Store      *store.Store
	Client     client.Client
	Dispatcher *dispatch.Dispatcher
	Log        *slog.Logger
}

// Instruments are what a process adds to its Temporal client; each may be nil.
type Instruments struct {
	Metrics      client.MetricsHandler
	Interceptors []interceptor.ClientInterceptor
	TemporalLog  log.Logger
}

// Open connects to database and Temporal. It refuses a schema that this binary does not know. Temporal may be down: the
// client connects when it is back. Errors are sentences: unavailable, or invalid with the command that mends it.
func Open(ctx context.Context, c config.Config, logger *slog.Logger, with Instruments) (*Backend, error) {
	s, err := OpenStore(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.CheckSchema(ctx); err != nil {
		s.Close()
		return nil, err
	}
	temporal, err := Dial(c, with)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &Backend{
		Config: c, Store: s, Client: temporal, Log: logger,
		Dispatcher: &dispatch.Dispatcher{Client: temporal, Queue: c.TaskQueue},
	}, nil
}

// OpenStore connects to the database alone.
func OpenStore(ctx context.Context, c config.Config) (*store.Store, error) {
	if c.DatabaseURL == "" {
		return nil, fault.New(fault.Invalid, "no database is configured: set MIKAN_DATABASE_URL, or start `go run ./starter dev`")
	}
	s, err := store.Open(ctx, c.DatabaseURL.Reveal())
	if err != nil && c.DevEnv != "" {
		return nil, fault.Wrap(fault.CodeOf(err), err, "the dev of %s does not answer; start it with: go run ./starter dev", c.DataDir)
	}
	return s, err
}

// Dial makes a Temporal client that connects when it is first used.
func Dial(c config.Config, with Instruments) (client.Client, error) {
	options, err := c.Temporal.ClientOptions()
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the Temporal configuration cannot be read")
	}
	options.MetricsHandler = with.Metrics
	options.Logger = with.TemporalLog
	options.Interceptors = append(options.Interceptors, with.Interceptors...)
	// Payloads are ids and counts: compressing them costs more on both sides than it saves on the way.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	if c.CodecKey.IsSet() {
		encrypting, err := codec.New(c.CodecKey.Bytes())
		if err != nil {
			return nil, err
		}
		options.DataConverter = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), encrypting)
	}
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the Temporal client cannot be made")
	}
	return temporal, nil
}

// Reachable asks Temporal for its health.
func (b *Backend) Reachable(ctx context.Context) error {
	_, err := b.Client.CheckHealth(ctx, &client.CheckHealthRequest{})
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "Temporal is not reachable at %s", b.Config.Temporal.Address)
	}
	return nil
}

// AwaitTemporal waits until Temporal answers and knows mikan's search attributes. say is told what is waited for.
func (b *Backend) AwaitTemporal(ctx context.Context, say func(string)) error {
	said := false
	for {
		err := b.Reachable(ctx)
		if err == nil {
			return dispatch.EnsureAttributes(ctx, b.Client, b.Config.Temporal.Namespace, say)
		}
		var verify *tls.CertificateVerificationError
		if errors.As(err, &verify) || ctx.Err() != nil {
			return err
		}
		if !said {
			say(err.Error() + "; waiting for it")
			said = true
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

// OfficeSettings tells what is in force in an office now.
func (b *Backend) OfficeSettings(ctx context.Context, officeKey string) (settings.Office, error) {
	installation, office, err := b.Store.SettingsOf(ctx, officeKey)
	if err != nil {
		return settings.Office{}, err
	}
	return settings.Effective(b.Config.Settings, run.PlatformOf(officeKey), installation, office), nil
}

// Close closes both connections.
func (b *Backend) Close() {
	b.Client.Close()
	b.Store.Close()
}
