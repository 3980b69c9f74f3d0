package migrate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"crypto/sha256"

	"github.com/tidwall/gjson"

	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/settings"
	"github.com/geminixiang/mikan/internal/store"
)

// settingsFile is what 0.5.3 had set for one conversation, or for the installation.
type settingsFile struct {
	path   string
	hash   [32]byte
	values map[string]any
	state  fileState
}

// maxSmallFile bounds files that are read as a whole: settings, events and marks.
const maxSmallFile = 1 << 20

// readSettings reads the installation's settings and those of every conversation.
func (p *planner) readSettings() error {
	path := filepath.Join(p.StateDir, settingsName)
	global, err := p.settingsOf(path, "")
	if err != nil {
		return err
	}
	p.global = global
	for _, c := range p.conversations {
		if c.directory == "" || !c.dirty {
			continue
		}
		dir := filepath.Join(p.Workspace, c.directory)
		if c.settings, err = p.settingsOf(filepath.Join(dir, settingsName), dir); err != nil {
			return err
		}
		if c.settings == nil {
			continue
		}
		if _, known := p.ledger.File(store.ImportedSettings, string(c.key), settingsName); known {
			c.settings.state = imported
		}
	}
	return nil
}

// settingsOf reads a settings.json and, of a conversation, the marks beside it; nil when nothing is set.
func (p *planner) settingsOf(path, dir string) (*settingsFile, error) {
	content, ok, err := p.smallFile(path)
	if err != nil {
		return nil, err
	}
	s := &settingsFile{path: path, values: map[string]any{}, hash: sha256.Sum256(content)}
	if ok {
		o, err := parseObject(content)
		if err != nil {
			p.add(Problem{Path: path, What: err.Error(), Fix: "mend the file, or leave it out with --skip-broken", Skippable: true})
			return nil, nil
		}
		p.model(s, o)
		p.otherSettings(s, o, dir)
	}
	if dir != "" {
		p.autoReply(s, dir, content)
	}
	if len(s.values) == 0 {
		return nil, nil
	}
	return s, nil
}

// model takes over which model answers. 0.5.3 named more providers and levels of thinking than there are here.
func (p *planner) model(s *settingsFile, o gjson.Result) {
	provider, model := str(o.Get("llm.provider")), str(o.Get("llm.model"))
	if provider == "" && model == "" {
		return
	}
	if provider == "" || model == "" {
		p.repair(s.path, repair{What: "names half a model, which is not taken over; set it with: mikan office set"})
		return
	}
	thinking := map[string]llm.Thinking{
		"": llm.ThinkingOff, "off": llm.ThinkingOff, "minimal": llm.ThinkingLow, "low": llm.ThinkingLow, "medium": llm.ThinkingMedium,
		"high": llm.ThinkingHigh, "xhigh": llm.ThinkingHigh,
	}[str(o.Get("llm.thinkingLevel"))]
	ref := llm.Ref{Provider: provider, Model: model, Thinking: thinking}
	if _, err := llm.ParseRef(ref.String()); err != nil {
		p.repair(s.path, repair{What: fmt.Sprintf("the model %s is of a provider that is not known here, and is not taken over; set one with: mikan office set, or MIKAN_MODEL", ref)})
		return
	}
	s.values[string(settings.Model)] = ref.String()
}

func (p *planner) otherSettings(s *settingsFile, o gjson.Result, dir string) {
	if mode := str(o.Get("slack.replyMode")); mode != "" && knownSetting("slack-reply-mode") {
		s.values["slack-reply-mode"] = mode
	} else if mode != "" && mode != "top-level" {
		p.repair(s.path, repair{What: "slack.replyMode is not taken over; set it in the configuration file"})
	}
	for _, name := range []string{"sandbox", "sentry"} {
		if o.Get(name).Exists() {
			p.repair(s.path, repair{What: name + " is configured otherwise here and is not taken over"})
		}
	}
}

// The marks by which 0.5.3 remembered whether it answers in a conversation without being mentioned.
const (
	autoReplyOn  = "auto-reply"
	autoReplyOff = "auto-reply.disabled"
)

func (p *planner) autoReply(s *settingsFile, dir string, content []byte) {
	mode := ""
	if o := gjson.ParseBytes(content).Get("autoReply"); o.Exists() {
		mode = "off"
		if o.Get("enabled").Bool() {
			mode = "on"
		}
	}
	rules := false
	for name, says := range map[string]string{autoReplyOff: "off", autoReplyOn: "on"} {
		text, ok, err := p.smallFile(filepath.Join(dir, name))
		if err != nil || !ok || mode == "on" && says == "off" {
			continue
		}
		mode, rules = says, len(text) > 0
	}
	switch {
	case mode == "":
		return
	case knownSetting(autoReplyOn):
		s.values[autoReplyOn] = mode
	default:
		p.repair(s.path, repair{What: "auto-reply was " + mode + " here and is not taken over; it is set in the configuration file"})
	}
	if rules {
		p.repair(filepath.Join(dir, autoReplyOn), repair{What: "the rules of auto-reply are not taken over; the file stays where it is"})
	}
}

// knownSetting tells whether an office can have a setting.
func knownSetting(name string) bool {
	return slices.ContainsFunc(settings.All(), func(s settings.Setting) bool { return string(s.Name) == name })
}

// smallFile reads a small regular file as a whole; false when there is none, or when it was listed as a problem.
func (p *planner) smallFile(path string) ([]byte, bool, error) {
	exists, trouble, err := regular(path, 0)
	if err != nil || !exists {
		return nil, false, err
	}
	if trouble != "" {
		p.problem(path, 0, trouble, fixLink)
		return nil, false, nil
	}
	file, info, err := openRegular(path)
	if err != nil {
		return nil, false, p.unreadable(path, err, func() {})
	}
	defer func() { _ = file.Close() }()
	if info.Size() > maxSmallFile {
		p.add(Problem{Path: path, What: fmt.Sprintf("is larger than %d bytes", maxSmallFile), Fix: "leave it out with --skip-broken", Skippable: true})
		return nil, false, nil
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSmallFile))
	return content, err == nil, err
}

func sizeOf(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

var errChanged = errors.New("changed while it was imported; stop mikan 0.5.3 and run the command again")
