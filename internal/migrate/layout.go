package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
	"github.com/geminixiang/mikan/internal/store"
)

// Names in an installation of 0.5.3 and of what it becomes.
const (
	sessionsDir      = "sessions"
	conversationsDir = "conversations"
	keptSessions     = "sessions-v3"
	keptLog          = "log-v3.jsonl"
	logName          = "log.jsonl"
	memoryName       = "MEMORY.md"
	settingsName     = "settings.json"
	currentName      = "current"
	eventsDir        = "events"
)

// notConversations are directories of a workspace that hold none.
var notConversations = []string{"skills", eventsDir, "agents"}

// topLevelName is what 0.5.3 called the files of top-level sessions: when, and eight characters that are not the id's.
var topLevelName = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T[0-9-]+Z?_[0-9a-fA-F-]{8,36}$`)

// conversation is one conversation on disk.
type conversation struct {
	directory string // its name in the workspace; "" when only its sessions are left
	address   office.Address
	key       office.Key
	audience  store.Audience
	sessions  string // its directory of sessions; "" when there is none
	files     []*sessionFile
	log       *logFile
	settings  *settingsFile
	dirty     bool // something of it is still to be done
	ledger    *store.ImportOffice
	created   time.Time
}

// sessionFile is a session on disk.
type sessionFile struct {
	path, name string // name is relative to the directory of sessions
	key        string
	place      place
	id         string
	parent     string
	created    time.Time
	hash       [32]byte
	size       int64
	entries    int64
	state      fileState
	generation int // order among the top-level sessions
}

// place tells what a session is to its key.
type place int

const (
	current place = iota
	archived
)

// fileState tells what is to be done with a file.
type fileState int

const (
	toImport fileState = iota
	imported           // by an earlier run
	placeholder
	skipped
)

// logFile is a chat log on disk.
type logFile struct {
	path     string
	hash     [32]byte
	lines    int64
	messages int64
	size     int64
	state    fileState
}

// regular tells what is at a path without following a link: whether it exists, and why it cannot be used.
func regular(path string, want fs.FileMode) (exists bool, trouble string, err error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, "", nil
	case err != nil:
		return false, "", err
	case info.Mode()&fs.ModeSymlink != 0:
		return true, "is a symbolic link, and links are never followed", nil
	case info.Mode().Type() != want:
		return true, "is a " + kindOfFile(info.Mode()) + ", not a " + kindOfFile(want), nil
	}
	return true, "", nil
}

func kindOfFile(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return "regular file"
	case fs.ModeDir:
		return "directory"
	case fs.ModeSocket:
		return "socket"
	case fs.ModeNamedPipe:
		return "named pipe"
	case fs.ModeSymlink:
		return "symbolic link"
	}
	return "device"
}

// openRegular opens a regular file for reading: never through a link in its place, never waiting for a pipe.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is a %s", path, kindOfFile(info.Mode()))
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// The advice given with problems.
const (
	fixLink      = "put the file or directory itself in its place, or remove it"
	fixBroken    = "mend the line, or leave the file out with --skip-broken"
	fixReadable  = "make it readable for this user, or leave the file out with --skip-broken"
	fixTwice     = "keep one of them, and move the other out of the workspace and the state directory"
	fixOwner     = "say whose it is with --owner %s=<platform>, or move the directory out of the workspace"
	fixCurrent   = "write the file name of the active session into it, without a path"
	fixUnknownID = "say which conversation it is with --owner <conversationId>=<platform>"
)

// scan finds the conversations of an installation.
func (p *planner) scan() error {
	entries, err := os.ReadDir(p.Workspace)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || slices.Contains(notConversations, e.Name()) {
			continue
		}
		if err := p.scanDirectory(e); err != nil {
			return err
		}
	}
	return p.scanState()
}

func (p *planner) scanDirectory(e fs.DirEntry) error {
	path := filepath.Join(p.Workspace, e.Name())
	if e.Type()&fs.ModeSymlink != 0 {
		if holds(path) {
			p.problem(path, 0, "is a symbolic link, and links are never followed", fixLink)
		}
		return nil
	}
	if !e.IsDir() || !holds(path) {
		return nil
	}
	c := &conversation{directory: e.Name(), dirty: true}
	p.conversations = append(p.conversations, c)
	for _, name := range []string{logName, memoryName} {
		if exists, trouble, err := regular(filepath.Join(path, name), 0); err != nil {
			return err
		} else if trouble != "" {
			p.problem(filepath.Join(path, name), 0, trouble, fixLink)
		} else if exists && name == logName {
			c.log = &logFile{path: filepath.Join(path, name)}
		}
	}
	dir := filepath.Join(path, sessionsDir)
	exists, trouble, err := regular(dir, fs.ModeDir)
	if trouble != "" {
		p.problem(dir, 0, trouble, fixLink)
	} else if exists {
		c.sessions = dir
	}
	return err
}

// holds tells whether a directory is a conversation's.
func holds(path string) bool {
	for _, name := range []string{logName, sessionsDir} {
		if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
			return true
		}
	}
	return false
}

// scanState finds sessions that are in the state directory already.
func (p *planner) scanState() error {
	root := filepath.Join(p.StateDir, conversationsDir)
	exists, trouble, err := regular(root, fs.ModeDir)
	if err != nil || !exists {
		return err
	}
	if trouble != "" {
		p.problem(root, 0, trouble, fixLink)
		return nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(root, e.Name(), sessionsDir)
		if e.Type()&fs.ModeSymlink != 0 {
			p.problem(filepath.Join(root, e.Name()), 0, "is a symbolic link, and links are never followed", fixLink)
			continue
		}
		exists, trouble, err := regular(dir, fs.ModeDir)
		if err != nil && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
		if !exists {
			continue
		}
		if trouble != "" {
			p.problem(dir, 0, trouble, fixLink)
			continue
		}
		if !office.IsKey(e.Name()) {
			p.problem(dir, 0, "is not below an office key", "move it out of the state directory")
			continue
		}
		p.stateSessions[office.Key(e.Name())] = dir
	}
	return nil
}

// listSessions finds a conversation's session files and the keys that they belong to.
func (p *planner) listSessions(c *conversation) error {
	if c.sessions == "" {
		return nil
	}
	active, err := p.readCurrent(c.sessions)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(c.sessions)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(c.sessions, e.Name())
		stem, isSession := strings.CutSuffix(e.Name(), ".jsonl")
		switch {
		case e.Name() == currentName:
		case e.Type()&fs.ModeSymlink != 0:
			p.problem(path, 0, "is a symbolic link, and links are never followed", fixLink)
		case e.IsDir():
			if err := p.listThread(c, e.Name()); err != nil {
				return err
			}
		case !isSession:
			p.repair(path, repair{What: "is no session and is not imported; it stays with the originals"})
		case !e.Type().IsRegular():
			p.problem(path, 0, "is a "+kindOfFile(e.Type())+", not a regular file", fixLink)
		case e.Name() == active:
			p.addFile(c, e.Name(), c.address.ConversationID, current)
		case topLevelName.MatchString(stem):
			p.addFile(c, e.Name(), c.address.ConversationID, archived)
		default:
			p.addScoped(c, e.Name(), stem, current)
		}
	}
	if active != "" && !slices.ContainsFunc(c.files, func(f *sessionFile) bool { return f.name == active }) {
		p.repair(filepath.Join(c.sessions, currentName), repair{What: "names a session that is not there; the top level begins anew"})
	}
	return nil
}

// readCurrent reads which file holds the active top-level session; "" when none does.
func (p *planner) readCurrent(dir string) (string, error) {
	path := filepath.Join(dir, currentName)
	exists, trouble, err := regular(path, 0)
	if err != nil || !exists {
		return "", err
	}
	if trouble != "" {
		p.problem(path, 0, trouble, fixLink)
		return "", nil
	}
	file, info, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	content := make([]byte, min(info.Size(), 4096))
	n, _ := file.ReadAt(content, 0)
	name := strings.TrimSpace(string(content[:n]))
	if name != "" && (name != filepath.Base(name) || name == "." || name == ".." || strings.ContainsAny(name, "\\\x00\n")) {
		p.problem(path, 0, "names no file of its directory", fixCurrent)
		return "", nil
	}
	return name, nil
}

// listThread finds what early versions kept of one thread in a directory of its own. Where a file of the thread stands
// beside the directory, that is what 0.5.3 goes on with.
func (p *planner) listThread(c *conversation, name string) error {
	dir := filepath.Join(c.sessions, name)
	active, err := p.readCurrent(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir + ".jsonl"); err == nil {
		active = ""
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Name() == currentName:
		case e.Type()&fs.ModeSymlink != 0:
			p.problem(path, 0, "is a symbolic link, and links are never followed", fixLink)
		case !strings.HasSuffix(e.Name(), ".jsonl"):
			p.repair(path, repair{What: "is no session and is not imported; it stays with the originals"})
		case !e.Type().IsRegular():
			p.problem(path, 0, "is a "+kindOfFile(e.Type())+", not a regular file", fixLink)
		case e.Name() == active:
			p.addScoped(c, filepath.Join(name, e.Name()), name, current)
		default:
			p.addScoped(c, filepath.Join(name, e.Name()), name, archived)
		}
	}
	return nil
}

func (p *planner) addScoped(c *conversation, name, suffix string, at place) {
	key, err := session.MakeKey(c.address.ConversationID, suffix)
	if err != nil {
		p.problem(filepath.Join(c.sessions, name), 0, err.Error(), "rename the file to its thread's id, or move it out of the directory")
		return
	}
	p.addFile(c, name, string(key), at)
}

func (p *planner) addFile(c *conversation, name, key string, at place) {
	c.files = append(c.files, &sessionFile{path: filepath.Join(c.sessions, name), name: name, key: key, place: at})
}
