// Package sandbox runs the commands of tools where they can do no more than they should, and sees that nothing of a
// command outlives it: not its end, not its cancellation, not the death of the worker that started it.
package sandbox

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
)

// Sandbox is one way to run commands. Implementations are safe for concurrent use.
type Sandbox interface {
	// Name is the value of MIKAN_SANDBOX that selects it.
	Name() string
	// Describe tells the model in a sentence or two what a command can reach. It never changes.
	Describe() string
	// Probe runs a trivial command. Its error is a sentence that says how to mend what is missing.
	Probe(ctx context.Context) error
	// Run runs one command to its end. The office's directory has the same absolute path inside as outside and is
	// the working directory and HOME. When ctx is done the command's process group gets SIGTERM and, one second later,
	// SIGKILL; Run then returns the context's cause. Any other error means that the sandbox could not run the command at
	// all (fault.Unavailable). When Run returns, no process of the command's group is left.
	Run(ctx context.Context, command Command) (Exit, error)
}

// Command is a shell command in an office.
type Command struct {
	Script string    // run by bash where there is one, else by sh; at most MaxScript bytes, no NUL
	Dir    string    // the office's absolute directory; it must exist
	Output io.Writer // what the command prints, both streams in the order printed; called from one goroutine
	// Started, when set, is called before the command's first effect with what the next worker needs to end it.
	Started func(Group)
}

// MaxScript is the longest script in bytes; Linux takes at most 128 KiB as one argument.
const MaxScript = 100 << 10

// Exit tells how a command ended. Code is its exit code, or 128 plus the number of the signal that ended it.
type Exit struct {
	Code int
}

// Config is what all sandboxes need to know.
type Config struct {
	// Spec is MIKAN_SANDBOX: "bwrap", "docker:<image>" or "host", the first two without network, or with it as
	// "bwrap+net" and "docker+net:<image>"; "" means bwrap where it works.
	Spec string
	// Hide lists files and directories that no command may see, such as the data directory and the configuration
	// file. The workspace around the office and the home directory are hidden in any case. The host sandbox cannot hide
	// anything.
	Hide []string
}

// Network tells what of the network a command reaches.
type Network int

// The kinds of network. Shared is the machine's own, so a command then also reaches services on its loopback address,
// Postgres and Temporal among them.
const (
	NoNetwork Network = iota
	SharedNetwork
)

const choices = "bwrap (Linux, needs bubblewrap), docker:<image> (needs a Docker daemon) or host (no isolation at all); bwrap+net and docker+net:<image> share the machine's network"

// Parse makes the sandbox that spec names, without looking whether it works.
func Parse(config Config) (Sandbox, error) {
	kind, image, hasImage := strings.Cut(config.Spec, ":")
	network := NoNetwork
	if base, shared := strings.CutSuffix(kind, "+net"); shared {
		kind, network = base, SharedNetwork
	}
	switch {
	case kind == "bwrap" && !hasImage:
		return &Bwrap{network: network, hide: cleaned(config.Hide)}, nil
	case kind == "docker" && image != "" && !strings.HasPrefix(image, "-"):
		return &Docker{network: network, image: image}, nil
	case config.Spec == "host":
		return &Host{}, nil
	}
	return nil, fault.New(fault.Invalid, "MIKAN_SANDBOX is %q; it must be %s", config.Spec, choices)
}

func cleaned(paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		if filepath.IsAbs(p) && filepath.Clean(p) != "/" {
			out = append(out, filepath.Clean(p))
		}
	}
	return out
}

// Fallback tells what Choose does when no sandbox is configured and bwrap does not work.
type Fallback int

// The fallbacks: Refuse for a server, HostLoudly for one's own machine.
const (
	Refuse Fallback = iota
	HostLoudly
)

// Choice is a sandbox that works here, and a warning to be shown to the operator when it is weaker than the default.
type Choice struct {
	Sandbox Sandbox
	Warning string
}

// probeTimeout bounds a probe; a Docker image may have to be fetched first.
const probeTimeout = 2 * time.Minute

// Choose makes the configured sandbox and proves that it works. A configured one that does not work is an error, never
// replaced; without a configured one it is bwrap, and fallback tells what happens where that does not work.
func Choose(ctx context.Context, config Config, fallback Fallback) (Choice, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	configured := config.Spec != ""
	if !configured {
		config.Spec = "bwrap"
	}
	chosen, err := Parse(config)
	if err != nil {
		return Choice{}, err
	}
	err = chosen.Probe(ctx)
	switch {
	case err == nil && chosen.Name() == "host":
		return Choice{Sandbox: chosen, Warning: hostWarning}, nil
	case err == nil:
		return Choice{Sandbox: chosen}, nil
	case configured:
		return Choice{}, err
	case fallback == Refuse || ctx.Err() != nil:
		return Choice{}, fault.Wrap(fault.Unavailable, err, "no sandbox for commands: set MIKAN_SANDBOX to %s", choices)
	}
	return Choice{
		Sandbox: &Host{},
		Warning: hostWarning + " bwrap does not work here: " + err.Error(),
	}, nil
}

const hostWarning = "COMMANDS RUN WITHOUT A SANDBOX, as you and on this machine, with everything you can reach."

// probe runs a command in a fresh office and expects its output.
func probe(ctx context.Context, s Sandbox, makeOffice func() (dir string, remove func(), err error)) error {
	dir, remove, err := makeOffice()
	if err != nil {
		return err
	}
	defer remove()
	var out strings.Builder
	exit, err := s.Run(ctx, Command{Script: `echo works > proof && read -r word < proof && echo "$word"`, Dir: dir, Output: &out})
	if err != nil {
		return err
	}
	if exit.Code != 0 || out.String() != "works\n" {
		return errors.New(strings.TrimSpace("a trial command failed: " + out.String()))
	}
	return nil
}
