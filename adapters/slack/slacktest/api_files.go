package slacktest

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// File is a file in Slack.
type File struct {
	ID       string   `json:"id"`
	Team     string   `json:"team"`
	User     string   `json:"user"`
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	MIME     string   `json:"mime"`
	AltText  string   `json:"alt_text,omitempty"`
	Size     int      `json:"size"`
	Content  []byte   `json:"content"`
	Channels []string `json:"channels"`
	External bool     `json:"external"` // lives elsewhere: url_private names a host that is not Slack's
	Deleted  bool     `json:"deleted"`
	Broken   bool     `json:"broken"` // downloads answer 500
	Away     bool     `json:"away"`   // downloads are redirected to a host that is not Slack's

	announced int // bytes
	ticket    string
	complete  bool
}

func (f *File) share(channel string) {
	if !slices.Contains(f.Channels, channel) {
		f.Channels = append(f.Channels, channel)
	}
}

// NewFile is a file of a person's to be made; Say shares it.
type NewFile struct {
	User    string    `json:"user"`
	Name    string    `json:"name"`
	MIME    string    `json:"mime,omitempty"` // empty: by the name
	Content []byte    `json:"content,omitempty"`
	Size    int       `json:"size,omitempty"` // announced size; 0: that of the content
	Kind    FileState `json:"kind,omitempty"`
}

// FileState tells what is wrong with a file.
type FileState string

// The states.
const (
	FileFine     FileState = ""
	FileExternal FileState = "external" // url_private is not Slack's
	FileDeleted  FileState = "deleted"  // gone: 404
	FileBroken   FileState = "broken"   // downloads fail with 500
	FileAway     FileState = "away"     // downloads are redirected to a host that is not Slack's
)

// CreateFile makes a file.
func (s *Server) CreateFile(n NewFile) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.user(n.User)
	if !ok {
		return File{}, fmt.Errorf("slacktest: no user %q", n.User)
	}
	f := &File{ID: s.nextID("F"), Team: u.TeamID, User: u.ID, Name: n.Name, Title: n.Name, MIME: n.MIME, Content: n.Content, Size: n.Size, complete: true,
		External: n.Kind == FileExternal, Deleted: n.Kind == FileDeleted, Broken: n.Kind == FileBroken, Away: n.Kind == FileAway}
	if f.MIME == "" {
		f.MIME = mimeOf(f.Name)
	}
	if f.Size == 0 {
		f.Size = len(f.Content)
	}
	s.uploads = append(s.uploads, f)
	return *f, nil
}

// File returns a file, one that the app uploaded for instance.
func (s *Server) File(id string) (File, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.file(id)
	if !ok {
		return File{}, false
	}
	return *f, true
}

func mimeOf(name string) string {
	if t := mime.TypeByExtension(filepath.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

func (s *Server) wireFile(f *File) reply {
	if f.Deleted {
		return reply{"id": f.ID, "mode": "tombstone"}
	}
	base, mode := s.files, "hosted"
	if f.External {
		base, mode = s.foreign, "external"
	}
	private := base + "/files-pri/" + f.Team + "-" + f.ID + "/" + f.Name
	return reply{
		"id": f.ID, "created": s.now().Unix(), "timestamp": s.now().Unix(), "name": f.Name, "title": f.Title, "mimetype": f.MIME,
		"filetype": strings.TrimPrefix(filepath.Ext(f.Name), "."), "user": f.User, "user_team": f.Team, "size": f.Size, "mode": mode,
		"is_external": f.External, "external_type": "", "is_public": false, "alt_txt": f.AltText, "channels": f.Channels,
		"url_private": private, "url_private_download": strings.Replace(private, "/"+f.Name, "/download/"+f.Name, 1),
	}
}

func (s *Server) filesGetUploadURLExternal(c *call) (reply, *apiError) {
	length := c.args.number("length", 0)
	if length == 0 {
		return nil, wrong("missing_argument", "length")
	}
	f := &File{ID: s.nextID("F"), Team: c.team.ID, User: c.team.BotUser, Name: c.args.text("filename"), AltText: c.args.text("alt_txt"),
		announced: length, ticket: uuid.NewString(), MIME: mimeOf(c.args.text("filename"))}
	s.uploads = append(s.uploads, f)
	return reply{"upload_url": s.files + "/upload/v1/" + f.ticket, "file_id": f.ID}, nil
}

func (s *Server) filesCompleteUploadExternal(c *call) (reply, *apiError) {
	var wanted []struct{ ID, Title string }
	if err := json.Unmarshal(c.args.raw("files"), &wanted); err != nil {
		return nil, wrong("invalid_arguments", "files: %v", err)
	}
	places := c.args.words("channels")
	if id := c.args.text("channel_id"); id != "" {
		places = append(places, id)
	}
	thread := c.args.text("thread_ts")
	if thread != "" && len(places) != 1 {
		return nil, wrong("invalid_arguments", "thread_ts needs one channel")
	}
	var into []*Channel
	for _, id := range places {
		ch, e := s.enter(c, id)
		if e != nil {
			return nil, e
		}
		into = append(into, ch)
	}
	var done []*File
	for _, w := range wanted {
		f, ok := s.file(w.ID)
		if !ok || f.User != c.team.BotUser || f.ticket == "" || f.complete {
			return nil, wrong("file_not_found", "%s was not announced, or is complete already", w.ID)
		}
		if f.Size != f.announced {
			return nil, wrong("file_not_found", "%s has not been uploaded", w.ID)
		}
		f.Title = w.Title
		if f.Title == "" {
			f.Title = f.Name
		}
		done = append(done, f)
	}
	out, ids := []reply{}, []string{}
	for _, f := range done {
		f.complete = true
		ids = append(ids, f.ID)
		out = append(out, reply{"id": f.ID, "title": f.Title})
	}
	for _, ch := range into {
		for _, f := range done {
			f.share(ch.ID)
		}
		s.post(ch, &Message{ThreadTS: thread, Team: c.team.ID, User: c.team.BotUser, BotID: c.team.BotID, AppID: s.app.ID,
			Text: c.args.text("initial_comment"), Files: ids, Subtype: "file_share"})
	}
	return reply{"files": out}, nil
}

func (s *Server) filesInfo(c *call) (reply, *apiError) {
	f, ok := s.file(c.args.text("file"))
	switch {
	case !ok || !f.complete:
		return nil, refuse("file_not_found")
	case f.Deleted:
		return nil, refuse("file_deleted")
	case !s.readable(c.team, f):
		return nil, refuse("not_visible")
	}
	return reply{"file": s.wireFile(f), "comments": []reply{}, "response_metadata": reply{"next_cursor": ""}}, nil
}

// readable tells whether the app's bot shares a channel with a file.
func (s *Server) readable(team *Team, f *File) bool {
	return f.User == team.BotUser || slices.ContainsFunc(f.Channels, func(id string) bool {
		ch, ok := s.channel(id)
		return ok && ch.has(team.BotUser)
	})
}

// fileRoutes is the host of files.
func (s *Server) fileRoutes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/upload/v1/{ticket}", s.serveUpload)
	m.HandleFunc("GET /files-pri/{id}/{name}", s.serveDownload)
	m.HandleFunc("GET /files-pri/{id}/download/{name}", s.serveDownload)
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><head><title>Sign in to Slack</title></head><body>Sign in</body></html>") // the client has gone
	})
	return m
}

// serveDownload answers with the file. Without a token that may read it, Slack leads to its page for signing in.
func (s *Server) serveDownload(w http.ResponseWriter, r *http.Request) {
	_, id, _ := strings.Cut(r.PathValue("id"), "-")
	token := bearer(r)
	s.mu.Lock()
	f, ok := s.file(id)
	team, known := find(s.teams, func(t *Team) bool { return t.Installed && t.BotToken == token })
	if !known {
		s.violate(BadDownload, "", "a file asked for without a bot token")
	}
	s.downloads++
	allowed := ok && known && s.readable(team, f) && slices.Contains(s.app.Scopes, "files:read")
	var content []byte
	var kind string
	var deleted, broken, away bool
	if ok {
		content, kind, deleted, broken, away = f.Content, f.MIME, f.Deleted, f.Broken, f.Away
	}
	s.mu.Unlock()
	switch {
	case !allowed:
		http.Redirect(w, r, "/?redir="+r.URL.Path, http.StatusFound)
	case deleted:
		w.WriteHeader(http.StatusNotFound)
	case away:
		http.Redirect(w, r, s.foreign+r.URL.Path, http.StatusFound)
	case broken:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content) // the client has gone
	}
}

// serveUpload takes the bytes of an announced file, raw or as the field of a form.
func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "multipart/form-data" {
		parts, err := r.MultipartReader()
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if body, err = parts.NextPart(); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	content, err := io.ReadAll(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := find(s.uploads, func(f *File) bool { return f.ticket != "" && f.ticket == r.PathValue("ticket") && !f.complete })
	switch {
	case err != nil || !ok || r.Method != http.MethodPost:
		s.violate(BadUpload, "", "an upload that was not announced")
		w.WriteHeader(http.StatusNotFound)
	case len(content) != f.announced:
		s.violate(BadUpload, "", fmt.Sprintf("%d bytes were announced, %d came", f.announced, len(content)))
		w.WriteHeader(http.StatusBadRequest)
	default:
		f.Content, f.Size = content, len(content)
		_, _ = fmt.Fprintf(w, "OK - %d", len(content)) // the client has gone
	}
}

// serveForeign is a host that is not Slack's. It must never see a token.
func (s *Server) serveForeign(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "" || strings.Contains(r.URL.String(), "xoxb-") {
		s.violate(LeakedToken, "", "a token at "+r.Host+r.URL.Path)
	}
	_, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/files-pri/"), "-")
	id, _, _ = strings.Cut(id, "/")
	f, ok := s.file(id)
	if !ok || !f.External && !f.Away {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", f.MIME)
	_, _ = w.Write(f.Content) // the client has gone
}
