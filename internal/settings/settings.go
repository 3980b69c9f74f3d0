// Package settings is what can be set for one office, or for the installation where an office says nothing: the names,
// and what each may be. The store keeps the values as JSON under these names.
package settings

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // small images have no zone files
	"unicode"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
)

// Name of a setting.
type Name string

// The settings, with the JSON that the store keeps.
const (
	Model        Name = "model"        // "provider/model[:thinking]"
	Instructions Name = "instructions" // text that is added to the system prompt
	Timezone     Name = "timezone"     // IANA name, "Europe/Berlin"
	Admins       Name = "admins"       // list of the platform's user ids
	Allowed      Name = "allowed"      // list of the platform's user ids; the others are not answered
	Tools        Name = "tools"        // object of tool name to "on" or "off"
	AutoReply    Name = "auto-reply"   // "on", "off" or "jev": whether talk in a shared channel is answered without a mention
	SpendLimit   Name = "spend-limit"  // US dollars a day in the office's time zone, as a number; 0 = no limit
)

// Setting describes one setting to people.
type Setting struct {
	Name  Name
	Takes string
	parse func(string) (any, error)
}

// All lists every setting in the order people should see them.
func All() []Setting {
	return []Setting{
		{Model, "provider/model[:thinking]", parseModel},
		{Instructions, "text, at most 20,000 characters", parseInstructions},
		{Timezone, "a name like Europe/Berlin", parseTimezone},
		{Admins, "user ids, separated by commas", parseIDs},
		{Allowed, "user ids, separated by commas", parseIDs},
		{Tools, "name=on or name=off, separated by commas", parseTools},
		{AutoReply, "off, on, or jev to have the decision model judge", parseAutoReply},
		{SpendLimit, "US dollars a day, 0 for no limit", parseDollars},
	}
}

// Parse reads what a person wrote into the value that the store keeps. Errors are invalid and say what may be written;
// for an unknown name they list the known ones.
func Parse(name, text string) (Name, any, error) {
	s, err := Find(name)
	if err != nil {
		return "", nil, err
	}
	value, err := s.parse(strings.TrimSpace(text))
	return s.Name, value, err
}

// Find is the setting of that name; invalid, naming the known ones, when there is none.
func Find(name string) (Setting, error) {
	all := All()
	i := slices.IndexFunc(all, func(s Setting) bool { return string(s.Name) == name })
	if i < 0 {
		known := make([]string, len(all))
		for i, s := range all {
			known[i] = string(s.Name)
		}
		return Setting{}, fault.New(fault.Invalid, "there is no setting %q; there are %s", name, strings.Join(known, ", "))
	}
	return all[i], nil
}

func parseModel(text string) (any, error) {
	ref, err := llm.ParseRef(text)
	return ref.String(), err
}

const maxInstructions = 20_000

func parseInstructions(text string) (any, error) {
	if text == "" || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, fault.New(fault.Invalid, "instructions are text; to remove them use --unset")
	}
	if n := utf8.RuneCountInString(text); n > maxInstructions {
		return nil, fault.New(fault.Invalid, "instructions have at most %d characters, not %d", maxInstructions, n)
	}
	return text, nil
}

func parseTimezone(text string) (any, error) {
	zone, err := time.LoadLocation(text)
	if err != nil || text == "" || text == "Local" { // what is local differs from process to process
		return nil, fault.New(fault.Invalid, "%q is no time zone; write a name like Europe/Berlin or UTC", text)
	}
	return zone.String(), nil
}

const maxID = 128

func parseIDs(text string) (any, error) {
	ids := []string{}
	for _, id := range strings.Split(text, ",") {
		id = strings.TrimSpace(id)
		if id == "" || len(id) > maxID || !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
			return nil, fault.New(fault.Invalid, "%q is no user id; write the platform's ids, separated by commas", id)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// toolName is what every provider takes as a tool's name. Which tools there are, only the worker knows.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func parseTools(text string) (any, error) {
	tools := map[string]config.Switch{}
	for _, one := range strings.Split(text, ",") {
		name, position, _ := strings.Cut(strings.TrimSpace(one), "=")
		s := config.Switch(position)
		if !toolName.MatchString(name) || s != config.On && s != config.Off {
			return nil, fault.New(fault.Invalid, "%q turns no tool on or off; write for example bash=off,read=on", one)
		}
		if before, twice := tools[name]; twice && before != s {
			return nil, fault.New(fault.Invalid, "%s is turned both on and off", name)
		}
		tools[name] = s
	}
	return tools, nil
}

func parseAutoReply(text string) (any, error) {
	switch mode := config.AutoReply(strings.ToLower(text)); mode {
	case config.AutoReplyOff, config.AutoReplyOn, config.AutoReplyJev:
		return mode, nil
	}
	return nil, fault.New(fault.Invalid, "%q is none of off, on and jev", text)
}

var amount = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,6})?$`)

func parseDollars(text string) (any, error) {
	digits := strings.TrimPrefix(text, "$")
	if !amount.MatchString(digits) {
		return nil, fault.New(fault.Invalid, "%q is no amount; write US dollars a day, like 2.50, or 0 for no limit", text)
	}
	if whole, rest, found := strings.Cut(digits, "."); found {
		n, _ := strconv.ParseInt(whole, 10, 64)
		return json.Number(strconv.FormatInt(n, 10) + "." + rest), nil
	}
	n, _ := strconv.ParseInt(digits, 10, 64)
	return json.Number(strconv.FormatInt(n, 10)), nil
}
