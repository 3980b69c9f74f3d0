package discord

import (
	"context"
	"maps"
	"slices"

	"github.com/geminixiang/mikan/adapters"
)

// Fitting tells which commands, by name and description, would be registered, and which would be left out.
func Fitting(descriptions map[string]string) (fit, left []string) {
	var all []command
	for _, name := range slices.Sorted(maps.Keys(descriptions)) {
		all = append(all, command{Name: name, Description: descriptions[name]})
	}
	kept, out := fitting(all)
	for _, c := range kept {
		fit = append(fit, c.Name)
	}
	return fit, out
}

// Overwrite registers commands of these names, as the gateway does.
func Overwrite(ctx context.Context, a *Adapter, names []string, description string) error {
	var all []command
	for _, name := range names {
		all = append(all, command{Name: name, Description: description, Options: []option{text("what", description)}})
	}
	fit, _ := fitting(all)
	self, err := a.Self(ctx)
	if err != nil {
		return err
	}
	return a.overwrite(ctx, self, fit)
}

// Clues are what the reason is found by.
type Clues struct{ Direct, Mentioned, RepliesTo, InThread, Scoped bool }

// Reason is what a message with these clues is addressed by.
func (c Clues) Reason() adapters.Reason {
	return addressing{direct: c.Direct, mentioned: c.Mentioned, repliesTo: c.RepliesTo, inThread: c.InThread, scoped: c.Scoped}.reason()
}

// Permissions that an invitation asks for.
const Permissions = permissions
