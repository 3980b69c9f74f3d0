package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/schedule"
	"github.com/geminixiang/mikan/internal/store"
)

// eventFile is a scheduled event on disk that becomes a schedule.
type eventFile struct {
	path, name string
	hash       [32]byte
	conv       *conversation
	made       store.Schedule
	state      fileState
}

// readEvents reads the events of the installation. One that is past, or was for the moment it was written, is reported
// and not imported.
func (p *planner) readEvents() error {
	dir := filepath.Join(p.Workspace, eventsDir)
	exists, trouble, err := regular(dir, fs.ModeDir)
	if err != nil || !exists {
		return err
	}
	if trouble != "" {
		p.problem(dir, 0, trouble, fixLink)
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			p.repair(path, repair{What: "is a directory and is not imported"})
			continue
		}
		content, ok, err := p.smallFile(path)
		if err != nil {
			return err
		}
		if ok {
			p.readEvent(path, content)
		}
	}
	return nil
}

const fixEvent = "mend the event, or leave it out with --skip-broken"

func (p *planner) readEvent(path string, content []byte) {
	refuse := func(format string, args ...any) {
		p.add(Problem{Path: path, What: fmt.Sprintf(format, args...), Fix: fixEvent, Skippable: true})
	}
	o, err := parseObject([]byte(strings.TrimSpace(string(content)) + " "))
	if err != nil {
		refuse("%v", err)
		return
	}
	kind, id, said := str(o.Get("type")), first(str(o.Get("conversationId")), str(o.Get("channelId"))), str(o.Get("text"))
	if kind == "" || id == "" || strings.TrimSpace(said) == "" {
		refuse("lacks its type, conversation or text")
		return
	}
	c, trouble := p.eventOffice(id, strings.ToLower(strings.TrimSpace(str(o.Get("platform")))))
	if trouble != "" {
		p.add(Problem{Path: path, What: trouble, Fix: fmt.Sprintf(fixOwner, id), Skippable: true})
		return
	}
	e := &eventFile{path: path, name: filepath.Base(path), hash: sha256.Sum256(content), conv: c}
	e.made = store.Schedule{
		ID: scheduleID(c.key, e.name), OfficeKey: string(c.key), Zone: "UTC", Text: said, AuthorID: str(o.Get("userId")), Source: e.name,
		State: store.ScheduleActive, CreatedAt: modified(path),
	}
	if p.Events == PauseEvents {
		e.made.State = store.SchedulePaused
	}
	switch kind {
	case "immediate":
		p.repair(path, repair{What: "was an event for the moment when it was written; it is not carried out late"})
		return
	case "one-shot":
		at, ok := parseTime(o.Get("at"))
		if !ok {
			refuse("has no time that can be read (ISO 8601 with an offset)")
			return
		}
		if at.Before(p.Now()) {
			p.repair(path, repair{What: "is an event of the past (" + at.Format(time.RFC3339) + "); it is not carried out late"})
			return
		}
		e.made.Kind, e.made.At = store.ScheduleOnce, &at
	case "periodic":
		e.made.Kind, e.made.Cron, e.made.Zone = store.ScheduleCron, strings.Join(strings.Fields(str(o.Get("schedule"))), " "), str(o.Get("timezone"))
		if err := schedule.Check(e.made.Cron, e.made.Zone); err != nil {
			refuse("%v", err)
			return
		}
	default:
		refuse("is of the unknown type %q", kind)
		return
	}
	if known, ok := p.ledger.File(store.ImportedSchedule, string(c.key), e.name); ok {
		e.state = imported
		if known.Hash != e.hash {
			p.repair(path, repair{What: "was imported already and has changed since; the schedule in the database counts"})
		}
	} else {
		c.dirty = true
	}
	p.schedules = append(p.schedules, e)
}

// scheduleID is the same in every run of the import.
func scheduleID(key office.Key, name string) string {
	sum := sha256.Sum256([]byte("event\x00" + string(key) + "\x00" + name))
	return "event-" + hex.EncodeToString(sum[:8])
}

// eventOffice finds the conversation that an event is for, or makes one that had no directory.
func (p *planner) eventOffice(id, platform string) (*conversation, string) {
	platforms := p.platformsOf(id)
	if platform != "" {
		named, err := office.ParsePlatform(platform)
		if err != nil {
			return nil, err.Error()
		}
		platforms = []office.Platform{named}
	} else if known := p.conversationsOf(id); len(known) == 1 {
		return known[0], ""
	}
	if len(platforms) != 1 {
		if len(platforms) == 0 {
			return nil, "is for a conversation that belongs to no platform whose tokens are set"
		}
		return nil, "is for a conversation that could belong to " + join(platforms)
	}
	c := &conversation{dirty: true}
	before := len(p.problems)
	if !p.address(c, platforms[0], id, "event for "+id) {
		what := p.problems[before].What
		p.problems = p.problems[:before]
		return nil, what
	}
	if i := slices.IndexFunc(p.conversations, func(k *conversation) bool { return k.key == c.key }); i >= 0 {
		return p.conversations[i], ""
	}
	p.conversations = append(p.conversations, c)
	return c, ""
}

func (p *planner) conversationsOf(id string) []*conversation {
	var found []*conversation
	for _, c := range p.conversations {
		if c.address.ConversationID == id {
			found = append(found, c)
		}
	}
	return found
}

// modified is when a file was last written, which is the same in every run of the import.
func modified(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return info.ModTime().UTC().Truncate(time.Second)
}
