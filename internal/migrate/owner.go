package migrate

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// The shapes of conversation ids, by which a platform is found where nobody says which.
var idShapes = map[office.Platform]*regexp.Regexp{
	office.Slack:    regexp.MustCompile(`^[A-Z][A-Z0-9]*$`),
	office.Telegram: regexp.MustCompile(`^-?\d+$`),
	office.Discord:  regexp.MustCompile(`^\d+$`),
	office.GitHub:   regexp.MustCompile(`(?i)^GH_`),
}

// ParseOwner reads what --owner says: a conversation id and a platform, split at the last "=".
func ParseOwner(said string) (conversationID string, platform office.Platform, err error) {
	at := strings.LastIndexByte(said, '=')
	if at <= 0 {
		return "", "", fmt.Errorf("--owner %q is not <conversationId>=<platform>", said)
	}
	platform, err = office.ParsePlatform(said[at+1:])
	return said[:at], platform, err
}

// own finds out whose each conversation is.
func (p *planner) own() {
	var kept []*conversation
	for _, c := range p.conversations {
		if p.ownOne(c) {
			kept = append(kept, c)
		}
	}
	p.conversations = kept
	p.adoptState()
	p.collide()
}

func (p *planner) ownOne(c *conversation) bool {
	path := filepath.Join(p.Workspace, c.directory)
	if office.IsKey(c.directory) {
		return p.ownKey(c, office.Key(c.directory), path)
	}
	platforms := p.platformsOf(c.directory)
	if len(platforms) != 1 {
		what := "belongs to no platform whose tokens are set"
		if len(platforms) > 1 {
			what = fmt.Sprintf("could belong to %s", join(platforms))
		}
		p.problem(path, 0, what, fmt.Sprintf(fixOwner, c.directory))
		return false
	}
	return p.address(c, platforms[0], c.directory, path)
}

func join(platforms []office.Platform) string {
	names := make([]string, len(platforms))
	for i, p := range platforms {
		names[i] = string(p)
	}
	return strings.Join(names, " or ")
}

// platformsOf lists the platforms that a raw conversation id may belong to.
func (p *planner) platformsOf(id string) []office.Platform {
	if named, ok := p.Owners[id]; ok {
		return []office.Platform{named}
	}
	var fit []office.Platform
	for _, platform := range p.Platforms {
		if shape := idShapes[platform]; shape != nil && shape.MatchString(id) {
			fit = append(fit, platform)
		}
	}
	return fit
}

func (p *planner) address(c *conversation, platform office.Platform, id, path string) bool {
	if platform == office.GitHub && len(id) > 3 && strings.EqualFold(id[:3], "GH_") {
		id = "GH_" + id[3:]
	}
	address, err := office.NewAddress(string(platform), id)
	if err != nil {
		p.problem(path, 0, err.Error(), "rename the directory to the conversation's id, or move it out of the workspace")
		return false
	}
	key, err := address.Key()
	if err != nil {
		p.problem(path, 0, err.Error(), "rename the directory to the conversation's id, or move it out of the workspace")
		return false
	}
	c.address, c.key, c.audience = address, key, audienceOf(address)
	if begun, ok := p.ledger.Offices[string(key)]; ok {
		c.ledger = &begun
	}
	return true
}

// audienceOf is what 0.5.3 took a conversation for, by its id alone.
func audienceOf(a office.Address) store.Audience {
	switch {
	case a.Platform == office.Slack && strings.HasPrefix(a.ConversationID, "D"),
		a.Platform == office.Telegram && !strings.HasPrefix(a.ConversationID, "-"),
		a.Platform == office.Discord && strings.HasPrefix(a.ConversationID, "DM"):
		return store.Private
	}
	return store.Shared
}

// ownKey finds the conversation of a directory that is named by its office key. The key holds only a digest of the id.
func (p *planner) ownKey(c *conversation, key office.Key, path string) bool {
	if known, ok := p.ledger.Known[string(key)]; ok {
		if begun, ok := p.ledger.Offices[string(key)]; !ok && c.sessions == "" {
			return false // an office of this installation's own: its log.jsonl is a copy of what the database has
		} else if ok && begun.Done && c.sessions == "" {
			c.dirty = false
		}
		return p.address(c, office.Platform(known.Platform), known.ConversationID, path)
	}
	id, found := p.resolveKey(key)
	if !found {
		p.problem(path, 0, "is named by an office key, and nothing says which conversation that is", fixUnknownID)
		return false
	}
	return p.address(c, key.Platform(), id, path)
}

// resolveKey looks for the conversation id that an office key was made of.
func (p *planner) resolveKey(key office.Key) (string, bool) {
	var candidates []string
	for id := range p.Owners {
		candidates = append(candidates, id)
	}
	slices.Sort(candidates)
	platform := key.Platform()
	readable := strings.TrimPrefix(string(key), "v1-"+string(platform)+"-")
	readable = readable[:len(readable)-len("-0123456789abcdef")]
	candidates = append(candidates, readable, strings.ToUpper(readable), "-"+readable)
	if platform == office.Discord && strings.HasPrefix(readable, "dm") {
		candidates = append(candidates, "DM"+readable[2:])
	}
	if rest, ok := strings.CutPrefix(readable, "gh-"); platform == office.GitHub && ok {
		candidates = append(candidates, gitHubIDs(rest)...)
	}
	for _, id := range candidates {
		address, err := office.NewAddress(string(platform), id)
		if err != nil {
			continue
		}
		if made, err := address.Key(); err == nil && made == key {
			return address.ConversationID, true
		}
	}
	return "", false
}

// gitHubIDs are the ids whose readable part may have come out as this: every separator was one of three.
func gitHubIDs(readable string) []string {
	parts := strings.Split(readable, "-")
	const most = 10 // separators; 3 to the power of that is still nothing
	if len(parts) > most {
		return nil
	}
	ids := []string{"GH_" + parts[0]}
	for _, part := range parts[1:] {
		var longer []string
		for _, id := range ids {
			for _, separator := range []string{"_", "-", "."} {
				longer = append(longer, id+separator+part)
			}
		}
		ids = longer
	}
	return ids
}

// adoptState joins sessions in the state directory with their conversations, and makes conversations of those whose
// directory in the workspace is gone.
func (p *planner) adoptState() {
	for _, key := range sortedKeys(p.stateSessions) {
		dir := p.stateSessions[key]
		i := slices.IndexFunc(p.conversations, func(c *conversation) bool { return c.key == key })
		if i >= 0 {
			c := p.conversations[i]
			if c.sessions != "" {
				p.problem(dir, 0, "and "+c.sessions+" both hold sessions of one conversation", fixTwice)
				continue
			}
			c.sessions, c.dirty = dir, true
			continue
		}
		c := &conversation{sessions: dir, dirty: true}
		if p.ownKey(c, key, dir) {
			p.conversations = append(p.conversations, c)
		}
	}
	// What an earlier run began and did not end may have nothing left on disk that shows it.
	for key, begun := range p.ledger.Offices {
		if begun.Done || begun.Source != p.source() || slices.ContainsFunc(p.conversations, func(c *conversation) bool { return string(c.key) == key }) {
			continue
		}
		c := &conversation{dirty: true}
		if p.address(c, office.Platform(begun.Office.Platform), begun.Office.ConversationID, key) {
			p.conversations = append(p.conversations, c)
		}
	}
	slices.SortFunc(p.conversations, func(a, b *conversation) int {
		return strings.Compare(string(a.key)+a.directory, string(b.key)+b.directory)
	})
}

func sortedKeys[V any](m map[office.Key]V) []office.Key {
	keys := make([]office.Key, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// collide refuses two directories for one office.
func (p *planner) collide() {
	for i, c := range p.conversations {
		if i > 0 && p.conversations[i-1].key == c.key {
			other := filepath.Join(p.Workspace, p.conversations[i-1].directory)
			p.problem(filepath.Join(p.Workspace, c.directory), 0, "and "+other+" are one conversation ("+string(c.key)+")", fixTwice)
			continue
		}
		if c.directory == "" || c.directory == string(c.key) {
			continue
		}
		target := filepath.Join(p.Workspace, string(c.key))
		if exists, _, err := regular(target, 0); err != nil || exists {
			p.problem(filepath.Join(p.Workspace, c.directory), 0, "would become "+target+", which exists", fixTwice)
		}
	}
}
