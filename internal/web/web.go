// Package web is the session view: a page for people that shows a session's whole timeline, live while a run goes.
//
// Whoever has the link reads the session and the others of its office; the link's token is the only key, so it stands
// in no log, and the pages load nothing from anywhere else. What people, models and tools wrote is shown as text and
// can never become markup.
package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// Link is the address of the session view that a token opens. base is where people reach the gateway, without a slash
// at its end.
func Link(base string, token store.LinkToken) string { return base + "/session/" + token.Reveal() }

// Viewer serves the session view.
type Viewer struct {
	store   *store.Store
	log     *slog.Logger
	stop    <-chan struct{}
	streams chan struct{} // one for each live stream that is open
}

// maxStreams bounds the live streams of one process: each costs a goroutine and a query every half second.
const maxStreams = 64

// New makes a Viewer. Its live streams end when ctx does: the server that carries them cannot end them by itself.
func New(ctx context.Context, s *store.Store, log *slog.Logger) *Viewer {
	return &Viewer{store: s, log: log, stop: ctx.Done(), streams: make(chan struct{}, maxStreams)}
}

// Mount puts the view on a mux, at /session/.
func (v *Viewer) Mount(mux *http.ServeMux) {
	mux.HandleFunc("/session/", guard(missing))
	mux.HandleFunc("GET /session/{$}", guard(welcome))
	for _, name := range []string{"view.css", "view.js", "icon.svg"} {
		mux.HandleFunc("GET /session/"+name, guard(asset(name)))
	}
	for _, at := range []string{"/session/{token}", "/session/{token}/s/{ref}"} {
		mux.HandleFunc("GET "+at, guard(v.opened(v.page)))
		mux.HandleFunc("GET "+at+"/live", guard(v.opened(v.live)))
		mux.HandleFunc("GET "+at+"/raw/{seq}", guard(v.opened(v.rawText)))
		mux.HandleFunc("GET "+at+"/raw/{seq}/{image}", guard(v.opened(v.rawImage)))
	}
	mux.HandleFunc("GET /session/{token}/all", guard(v.opened(v.list)))
}

// guard sets what every answer carries. The policy allows this server's own script, style and images, and nothing else:
// even a text that became markup by a mistake could load, send and run nothing.
func guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "+
			"frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer") // the address is the secret
		h.Set("Cache-Control", "private, no-store")
		h.Set("X-Robots-Tag", "noindex, nofollow")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next(w, r)
	}
}

// visit is one request through a link that is in force.
type visit struct {
	hash    store.LinkHash
	expires time.Time
	office  store.Office
	session store.SessionSummary
	links   links
}

// opened finds what a request's link opens. A link that never was, has expired or was revoked, and a reference that
// the link does not reach, all get the same answer.
func (v *Viewer) opened(serve func(http.ResponseWriter, *http.Request, visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		at, err := v.visit(r)
		if err == nil {
			err = serve(w, r, at)
		}
		switch {
		case err == nil || r.Context().Err() != nil:
		case fault.CodeOf(err) == fault.NotFound || fault.CodeOf(err) == fault.Invalid:
			missing(w, r)
		default:
			v.log.Error("the session view failed", "error", err) // without the address: it holds the token
			w.Header().Set("Retry-After", "5")
			notice(w, r, http.StatusServiceUnavailable, "Not available just now", "Please try again in a moment.")
		}
	}
}

func (v *Viewer) visit(r *http.Request) (visit, error) {
	token, ref := r.PathValue("token"), r.PathValue("ref")
	at := visit{hash: store.HashLink(token)}
	link, known, err := v.store.Link(r.Context(), at.hash)
	if err != nil {
		return at, err
	}
	if !known {
		return at, fault.New(fault.NotFound, "no such link")
	}
	at.expires = link.ExpiresAt
	seal, err := newSeal(token)
	if err != nil {
		return at, err
	}
	at.links = links{root: "", page: token, token: token, seal: seal}
	id := link.SessionID
	if ref != "" {
		if id, err = seal.open(ref); err != nil {
			return at, err
		}
		at.links.root, at.links.page = "../../", ref
	}
	if at.session, err = v.store.SessionSummary(r.Context(), id); err != nil {
		return at, err
	}
	if at.session.OfficeKey != link.OfficeKey {
		return at, fault.New(fault.NotFound, "no such session")
	}
	at.office, err = v.store.Office(r.Context(), link.OfficeKey)
	return at, err
}

//go:embed assets
var assets embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"number": number, "count": count, "dollars": dollars, "stamp": stamp, "machine": machine,
}).ParseFS(assets, "assets/*.html"))

// render writes a page only when all of it could be made.
func render(w http.ResponseWriter, status int, name string, data any) error {
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, name, data); err != nil {
		return fault.Wrap(fault.Internal, err, "the page %s cannot be made", name)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // a reader who is gone is no error
	return nil
}

func missing(w http.ResponseWriter, r *http.Request) {
	notice(w, r, http.StatusNotFound, "No such page", "A link to a session works for 24 hours unless it is revoked. Say /session in the conversation to get a new one.")
}

func welcome(w http.ResponseWriter, r *http.Request) {
	notice(w, r, http.StatusOK, "mikan sessions", "Say /session in a conversation to get a link to its session, or make one with: mikan session link SESSION")
}

func notice(w http.ResponseWriter, r *http.Request, status int, title, text string) {
	// The page stands at any depth, and a proxy may have put a path before it.
	root := strings.Repeat("../", max(0, strings.Count(r.URL.Path, "/")-2))
	_ = render(w, status, "notice.html", map[string]string{
		"Title": title, "Text": text, "Style": root + version("view.css"), "Icon": root + version("icon.svg"),
	})
}

// asset serves one static file. Its address carries a digest of its content, so it may be kept for long.
func asset(name string) http.HandlerFunc {
	content, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic("the file " + name + " is not embedded: " + err.Error())
	}
	mediaType := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(name)]
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
}

// version is the address of a static file, relative to the directory of the pages, with a digest of its content.
func version(name string) string {
	content, _ := assets.ReadFile("assets/" + name)
	sum := sha256.Sum256(content)
	return name + "?v=" + hex.EncodeToString(sum[:6])
}
