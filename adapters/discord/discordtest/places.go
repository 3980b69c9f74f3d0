package discordtest

import (
	"encoding/json"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// lookup finds a channel as the bot sees it.
func (s *Server) lookup(r *request) (*channel, *apiError) {
	c := s.channels[r.id("channel")]
	switch {
	case c == nil:
		return nil, errUnknownChannel
	case c.state == hidden:
		return nil, errMissingAccess
	}
	return c, nil
}

func (s *Server) listGuilds(*request) (any, *apiError) {
	list := []any{}
	for _, id := range sortedKeys(s.guilds) {
		list = append(list, map[string]any{"id": id, "name": s.guilds[id].name, "owner": false, "permissions": "0", "features": []string{}})
	}
	return list, nil
}

func (s *Server) application(*request) (any, *apiError) {
	return map[string]any{"id": s.bot.ID, "name": "mikan", "flags": s.flags, "bot_public": false, "bot": s.bot}, nil
}

func (s *Server) createDM(r *request) (any, *apiError) {
	var p struct {
		Recipient string `json:"recipient_id"`
	}
	if err := r.decode(&p); err != nil {
		return nil, err
	}
	if s.users[p.Recipient] == nil {
		return nil, errUnknownUser
	}
	return s.channelObject(s.dm(p.Recipient)), nil
}

func (s *Server) getChannel(r *request) (any, *apiError) {
	c, err := s.lookup(r)
	if err != nil {
		return nil, err
	}
	return s.channelObject(c), nil
}

func (s *Server) getMember(r *request) (any, *apiError) {
	g := s.guilds[r.id("guild")]
	if g == nil {
		return nil, errUnknownGuild
	}
	m := g.members[r.id("user")]
	if m == nil {
		return nil, errUnknownMember
	}
	return m, nil
}

func (s *Server) typing(r *request) (any, *apiError) {
	c, err := s.lookup(r)
	if err != nil {
		return nil, err
	}
	if c.state == silent {
		return nil, &apiError{status: 403, code: 50013, text: "Missing Permissions"}
	}
	c.typing++
	return nil, nil
}

func (s *Server) listMessages(r *request) (any, *apiError) {
	c, err := s.lookup(r)
	if err != nil {
		return nil, err
	}
	if c.kind == typeForum {
		return nil, &apiError{status: 400, code: 50024, text: "Cannot execute action on this channel type"}
	}
	q := r.URL.Query()
	most := 50
	if q.Has("limit") {
		n, bad := strconv.Atoi(q.Get("limit"))
		if bad != nil || n < 1 || n > 100 {
			return nil, invalid("limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 100.")
		}
		most = n
	}
	for name := range q {
		if name != "limit" && name != "after" && name != "before" {
			return nil, invalid(name, "UNSUPPORTED", "this server knows after and before only")
		}
	}
	var page []*Message // newest first
	for _, m := range c.messages {
		switch {
		case q.Has("after") && !newer(m.ID, q.Get("after")), q.Has("before") && !newer(q.Get("before"), m.ID):
			continue
		case q.Has("after") && len(page) == most:
			continue // the oldest after the id
		case len(page) == most:
			page = page[:most-1] // the newest
		}
		page = append([]*Message{s.stored(m)}, page...)
	}
	if page == nil {
		page = []*Message{}
	}
	return page, nil
}

// stored is a message as history returns it: without nonce, guild and member.
func (s *Server) stored(m *Message) *Message {
	h := *m
	h.Nonce, h.GuildID, h.Member = "", "", nil
	return &h
}

func (s *Server) getMessage(r *request) (any, *apiError) {
	m, _, err := s.lookupMessage(r)
	if err != nil {
		return nil, err
	}
	return s.stored(m), nil
}

func (s *Server) lookupMessage(r *request) (*Message, *channel, *apiError) {
	c, err := s.lookup(r)
	if err != nil {
		return nil, nil, err
	}
	m := find(c, r.id("message"))
	if m == nil {
		return nil, nil, errUnknownMessage
	}
	return m, c, nil
}

// file is what the CDN keeps.
type file struct {
	content []byte
	kind    string
	expires time.Time
}

// keep puts a file on the CDN. Its URL is signed and expires after a day, as attachments' do.
func (s *Server) keep(channelID, name string, content []byte) Attachment {
	id := s.snowflake()
	kind := mime.TypeByExtension(path.Ext(name))
	expires := time.Now().Add(24 * time.Hour)
	where := "/attachments/" + channelID + "/" + id + "/" + name
	s.files[where] = file{content: content, kind: kind, expires: expires}
	url := s.cdnURL() + where + "?ex=" + strconv.FormatInt(expires.Unix(), 16) + "&is=0&hm=" + id
	return Attachment{ID: id, Filename: name, ContentType: kind, Size: len(content), URL: url, ProxyURL: url}
}

// serveFile is the CDN. A token has no business here.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f, known := s.files[r.URL.Path]
	if r.Header.Get("Authorization") != "" {
		s.violate("a token was sent to the CDN")
	}
	s.mu.Unlock()
	signed := strings.Contains(r.URL.Path, "/"+r.URL.Query().Get("hm")+"/") && r.URL.Query().Get("hm") != ""
	switch {
	case !known, !signed, time.Now().After(f.expires):
		http.Error(w, "This content is no longer available.", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", f.kind)
		_, _ = w.Write(f.content)
	}
}

// LoseFile makes the CDN forget a message's files.
func (s *Server) LoseFile(channelID, messageID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range find(s.channels[channelID], messageID).Attachments {
		for where := range s.files {
			if strings.Contains(where, "/"+a.ID+"/") {
				delete(s.files, where)
			}
		}
	}
}

// rawFields are the names in a JSON object.
func rawFields(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(raw, &m)
	return m
}
