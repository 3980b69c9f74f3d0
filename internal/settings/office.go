package settings

import (
	"encoding/json"
	"time"

	"github.com/geminixiang/mikan/internal/config"
)

// Office is what is in force in one office: what is set there, else for the installation, else by the configuration.
type Office struct {
	Model         string // "" leaves the choice to the configuration
	Instructions  string // the configuration's, the installation's and the office's, one after the other
	Zone          *time.Location
	Admins        []string
	Allowed       []string // empty: whoever the platform's own rules admit
	Tools         map[string]config.Switch
	AutoReply     config.AutoReply
	SpendLimitUSD float64 // a day in Zone; 0 = no limit
}

// Effective combines what the store holds for the installation and for an office with the configuration. A value that
// cannot be read counts as not set: it was stored by a version that knew better.
func Effective(c config.Settings, platform string, installation, office map[string]json.RawMessage) Office {
	e := Office{Instructions: c.Instructions, Zone: time.UTC, Tools: map[string]config.Switch{}, AutoReply: c.AutoReply, SpendLimitUSD: c.SpendLimitUSD}
	for p, ids := range c.Admins {
		if string(p) == platform {
			e.Admins = append(e.Admins, ids...)
		}
	}
	for name, position := range c.Tools {
		e.Tools[name] = position
	}
	for _, stored := range []map[string]json.RawMessage{installation, office} {
		e.apply(stored)
	}
	return e
}

func (e *Office) apply(stored map[string]json.RawMessage) {
	read := func(name Name, into any) bool {
		raw, ok := stored[string(name)]
		return ok && json.Unmarshal(raw, into) == nil
	}
	var instructions, zone string
	if read(Instructions, &instructions) {
		if e.Instructions != "" {
			e.Instructions += "\n\n"
		}
		e.Instructions += instructions
	}
	if read(Timezone, &zone) {
		if location, err := time.LoadLocation(zone); err == nil {
			e.Zone = location
		}
	}
	var admins []string
	if read(Admins, &admins) {
		e.Admins = append(e.Admins, admins...)
	}
	var tools map[string]config.Switch
	if read(Tools, &tools) {
		for name, position := range tools {
			e.Tools[name] = position
		}
	}
	read(Model, &e.Model)
	read(Allowed, &e.Allowed)
	read(AutoReply, &e.AutoReply)
	if e.AutoReply == "" {
		e.AutoReply = config.AutoReplyOff
	}
	read(SpendLimit, &e.SpendLimitUSD)
}

// On tells whether a tool may be used; those that nobody named are on.
func (e Office) On(tool string) bool { return e.Tools[tool] != config.Off }

// Today is when the current day began in the office's time zone.
func (e Office) Today(now time.Time) time.Time {
	now = now.In(e.Zone)
	return time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, e.Zone)
}
