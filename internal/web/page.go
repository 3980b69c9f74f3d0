package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/llm"
	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/text"
)

// pageData is what the page's template shows.
type pageData struct {
	Style, Script, Icon string
	Facts               facts
	Expires             time.Time
	Parent              *thread
	ForkSeq             int64
	All                 string
	Items               []item
	First, Last         int64 // positions of the entries shown
	Before, After       int64 // positions to page from; 0 = nothing there
	Newest              bool
	Live                string
}

// facts are what the head of the page says; they are sent anew while a run goes.
type facts struct {
	Title    string
	Where    string
	Key      string
	Session  store.SessionSummary
	Usage    store.Usage
	Running  bool
	Since    time.Time
	Waits    bool
	Archived bool
}

func (v *Viewer) page(w http.ResponseWriter, r *http.Request, at visit) error {
	total := at.session.NextSeq - 1
	from, to, err := extent(r, total)
	if err != nil {
		return err
	}
	f, open, err := v.facts(r, at)
	if err != nil {
		return err
	}
	data := pageData{
		Style: at.links.asset("view.css"), Script: at.links.asset("view.js"), Icon: at.links.asset("icon.svg"),
		Facts: f, Expires: at.expires, All: at.links.all(), First: from, Last: to, Newest: to == total, Live: at.links.live(),
	}
	if from > 1 {
		data.Before = from
	}
	if to < total {
		data.After = to
	}
	if at.session.ParentID != "" {
		parent, err := v.store.SessionSummary(r.Context(), at.session.ParentID)
		if err != nil {
			return err
		}
		if parent.OfficeKey == at.session.OfficeKey {
			data.Parent = &thread{Title: nameOf(parent.Session, at.office), URL: at.links.entry(parent.ID, at.session.ForkSeq)}
			data.ForkSeq = at.session.ForkSeq
		}
	}
	if data.Items, err = v.timeline(r.Context(), at, open.ID, from, to); err != nil {
		return err
	}
	return render(w, http.StatusOK, "page.html", data)
}

// extent reads from the address which entries are asked for: those before or after one, those around one, else the
// newest. Pages before and after another never repeat what that one shows.
func extent(r *http.Request, total int64) (from, to int64, err error) {
	query := r.URL.Query()
	position := func(name string) int64 {
		n, parseErr := strconv.ParseInt(query.Get(name), 10, 64)
		if parseErr != nil || n < 0 || n > total+1 {
			err = fault.New(fault.NotFound, "no such page")
		}
		return n
	}
	switch {
	case query.Has("before"):
		to = position("before") - 1
		from = to - pageEntries + 1
	case query.Has("after"):
		from = position("after") + 1
		to = from + pageEntries - 1
	case query.Has("at"):
		to = max(position("at")+pageEntries/2-1, pageEntries)
		from = min(to, total) - pageEntries + 1
	default:
		from, to = total-pageEntries+1, total
	}
	return max(from, 1), min(to, total), err
}

func (v *Viewer) facts(r *http.Request, at visit) (facts, store.Run, error) {
	usage, err := v.store.SessionUsage(r.Context(), at.session.ID)
	if err != nil {
		return facts{}, store.Run{}, err
	}
	open, running, err := v.store.OpenRun(r.Context(), at.session.OfficeKey, at.session.SessionKey)
	if err != nil {
		return facts{}, store.Run{}, err
	}
	f := facts{
		Title: nameOf(at.session.Session, at.office), Where: placeOf(at.office), Key: text.VisibleLine(at.session.SessionKey), Session: at.session, Usage: usage,
		Archived: at.session.ArchivedAt != nil,
	}
	if running && open.SessionID == at.session.ID {
		f.Running, f.Since = true, open.StartedAt
		return f, open, nil
	}
	return f, store.Run{}, nil
}

func placeOf(o store.Office) string {
	if o.Name != "" {
		return o.Platform + " · " + text.VisibleLine(o.Name)
	}
	return o.Platform + " · " + text.VisibleLine(o.ConversationID)
}

// listData is what the list of a conversation's sessions shows.
type listData struct {
	Style, Icon string
	Where       string
	Sessions    []listed
	Skip        int
	Earlier     int // how many to skip for the next page; 0 = none
	Later       int // how many to skip for the page before; -1 = none
}

type listed struct {
	thread
	store.SessionSummary
}

// list shows all sessions of the conversation, newest activity first.
func (v *Viewer) list(w http.ResponseWriter, r *http.Request, at visit) error {
	skip := 0
	if r.URL.Query().Has("skip") {
		n, err := strconv.Atoi(r.URL.Query().Get("skip"))
		if err != nil || n < 0 {
			return fault.New(fault.NotFound, "no such page")
		}
		skip = n
	}
	sessions, err := v.store.SessionSummaries(r.Context(), at.office.Key, pageEntries+1, skip)
	if err != nil {
		return err
	}
	at.links.root = "../"
	data := listData{Style: at.links.asset("view.css"), Icon: at.links.asset("icon.svg"), Where: placeOf(at.office), Skip: skip, Later: -1}
	if len(sessions) > pageEntries {
		sessions, data.Earlier = sessions[:pageEntries], skip+pageEntries
	}
	if skip > 0 {
		data.Later = max(0, skip-pageEntries)
	}
	for _, s := range sessions {
		data.Sessions = append(data.Sessions, listed{thread{nameOf(s.Session, at.office), at.links.session(s.ID)}, s})
	}
	return render(w, http.StatusOK, "list.html", data)
}

// rawText answers with one entry's text, whole and as it is kept, for copying and for texts that the page shortens.
func (v *Viewer) rawText(w http.ResponseWriter, r *http.Request, at visit) error {
	entry, err := v.entry(r, at)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(rawText(entry)))
	return nil
}

// rawImage answers with an image of an entry, by its number there. Only the kinds that models take are shown.
func (v *Viewer) rawImage(w http.ResponseWriter, r *http.Request, at visit) error {
	entry, err := v.entry(r, at)
	if err != nil {
		return err
	}
	var images []llm.Block
	for _, block := range entry.Body.Blocks {
		if block.Kind == llm.BlockImage {
			images = append(images, block)
		}
		images = append(images, block.Images...)
	}
	i, err := strconv.Atoi(r.PathValue("image"))
	if err != nil || i < 0 || i >= len(images) {
		return fault.New(fault.NotFound, "no such image")
	}
	switch images[i].MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return fault.New(fault.NotFound, "no such image")
	}
	w.Header().Set("Content-Type", images[i].MediaType)
	_, _ = w.Write(images[i].Data)
	return nil
}

func (v *Viewer) entry(r *http.Request, at visit) (store.Entry, error) {
	seq, err := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	if err != nil {
		return store.Entry{}, fault.New(fault.NotFound, "no such entry")
	}
	return v.store.Entry(r.Context(), at.session.ID, seq)
}
