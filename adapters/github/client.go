package github

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/google/go-github/v62/github"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/text"
)

// class is what a call costs of GitHub's limits.
type class string

const (
	reading class = "read"
	writing class = "write"
)

// The limits of a personal access token: 5,000 calls an hour, and 80 content-generating ones a minute and 500 an hour
// (the smaller average is kept, with a burst).
// https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
var (
	coreLimit    = rate.Limit{PerMinute: 5000.0 / 60, Burst: 800, Reserve: 200}
	contentLimit = rate.Limit{PerMinute: 500.0 / 60, Burst: 60, Reserve: 30}
)

const (
	coreBucket    = "core"
	contentBucket = "content"
)

// call makes one call to GitHub inside its limits. Errors have codes of package fault, and no more of a URL than its
// path.
func (a *Adapter) call(ctx context.Context, what string, c class, p rate.Priority, do func(context.Context) error) error {
	if c == writing {
		if err := a.limiter.Take(ctx, contentBucket, contentLimit, p); err != nil {
			return err
		}
	}
	if err := a.limiter.Take(ctx, coreBucket, coreLimit, p); err != nil {
		return err
	}
	failpoint.Hit("github." + what + ".before")
	err := do(ctx)
	failpoint.Hit("github." + what + ".after")
	err = explain(err)
	if fault.CodeOf(err) == fault.RateLimited {
		bucket := coreBucket
		var primary *sdk.RateLimitError
		if c == writing && !errors.As(err, &primary) {
			bucket = contentBucket
		}
		_ = a.limiter.Obey(ctx, bucket, fault.RetryAfter(err))
	}
	return err
}

// secondaryPause is how long to wait after a secondary limit that does not say: GitHub's documentation asks for at least
// a minute.
const secondaryPause = time.Minute

// explain gives an error of the SDK its code. What GitHub says is kept, clipped; it holds no secret.
func explain(err error) error {
	var (
		primary  *sdk.RateLimitError
		second   *sdk.AbuseRateLimitError
		accepted *sdk.AcceptedError
		answer   *sdk.ErrorResponse
		mine     *fault.Error
	)
	switch {
	case err == nil, errors.As(err, &accepted):
		return nil
	case errors.As(err, &mine), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &primary):
		return fault.Wrap(fault.RateLimited, quiet{err}, "GitHub's hourly limit is used up").After(max(time.Until(primary.Rate.Reset.Time), time.Second))
	case errors.As(err, &second):
		wait := secondaryPause
		if second.RetryAfter != nil {
			wait = *second.RetryAfter
		}
		return fault.Wrap(fault.RateLimited, quiet{err}, "GitHub asks for a pause").After(max(wait, time.Second))
	case errors.As(err, &answer):
		return refused(answer)
	}
	return fault.Wrap(fault.Unavailable, quiet{err}, "GitHub could not be reached")
}

// quiet keeps the cause of an error for errors.As without its text, which may hold a URL.
type quiet struct{ error }

func (quiet) Error() string   { return "the SDK says no more" }
func (q quiet) Unwrap() error { return q.error }

func refused(answer *sdk.ErrorResponse) error {
	status := answer.Response.StatusCode
	said := text.Clip(text.Storable(answer.Message), 200)
	for _, e := range answer.Errors {
		said += text.Clip("; "+text.Storable(e.Field+" "+e.Code+" "+e.Message), 200)
	}
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && answer.Response.Header.Get("Retry-After") != "":
		return fault.New(fault.RateLimited, "GitHub asks for a pause").After(retryAfter(answer.Response.Header))
	case status == http.StatusUnauthorized:
		return fault.New(fault.Forbidden, "GitHub refuses the token: make a new one and set GITHUB_AGENT_TOKEN")
	case status == http.StatusForbidden:
		if needs := answer.Response.Header.Get("X-Accepted-GitHub-Permissions"); needs != "" {
			return fault.New(fault.Forbidden, "the token lacks a permission for this; it needs %s", text.Clip(needs, 100))
		}
		return fault.New(fault.Forbidden, "GitHub refuses this: %s", said)
	case status == http.StatusNotFound, status == http.StatusGone:
		return fault.New(fault.NotFound, "it does not exist on GitHub, or GitHub does not show it to the token")
	case status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity && strings.Contains(said, "too long"):
		return fault.New(fault.TooLarge, "GitHub refuses this: %s", said)
	case status >= 500, status == http.StatusRequestTimeout:
		return fault.New(fault.Unavailable, "GitHub answers %d", status)
	case status == http.StatusConflict:
		return fault.New(fault.Conflict, "GitHub refuses this: %s", said)
	}
	return fault.New(fault.Invalid, "GitHub refuses this (%d): %s", status, said)
}

func retryAfter(h http.Header) time.Duration {
	if seconds, err := strconv.Atoi(h.Get("Retry-After")); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil && h.Get("X-RateLimit-Remaining") == "0" {
		return max(time.Until(time.Unix(reset, 0)), time.Second)
	}
	return secondaryPause
}

// hosts are where the token may be sent.
type hosts struct {
	api *url.URL
	// elsewhere: all traffic goes to the API's host, which stands for GitHub's others, too.
	redirected redirection
}

type redirection string

const (
	direct     redirection = "direct"
	redirected redirection = "redirected"
)

// trusted tells whether a request to this address may carry the token.
func (h hosts) trusted(u *url.URL) bool {
	if u.Scheme == h.api.Scheme && u.Host == h.api.Host {
		return true
	}
	return h.redirected == direct && u.Scheme == "https" && u.Host == "github.com"
}

// confined adds the token to requests to GitHub's own hosts and to no others, redirects included.
type confined struct {
	base  http.RoundTripper
	token config.Secret
	hosts hosts
}

func (c confined) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	if c.hosts.trusted(req.URL) {
		req.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	return c.base.RoundTrip(req)
}

// apiVersion is the version of the REST API that this package was written for.
const apiVersion = "2022-11-28"

func newClient(c config.GitHubConfig) (*sdk.Client, hosts, error) {
	u, err := apiURL(c)
	if err != nil {
		return nil, hosts{}, err
	}
	h := hosts{api: u, redirected: direct}
	if c.APIURL != "" {
		h.redirected = redirected
	}
	client := sdk.NewClient(&http.Client{
		Transport: &remembering{base: confined{base: newTransport(), token: c.AgentToken, hosts: h}, kept: map[string]*representation{}},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			// A renamed repository redirects within the API. Nothing redirects out of it.
			if len(via) > 5 || req.URL.Host != u.Host || req.URL.Scheme != u.Scheme {
				return fault.New(fault.Forbidden, "GitHub's API redirects to a foreign host")
			}
			return nil
		},
	})
	client.BaseURL = u
	client.UserAgent = "mikan"
	return client, h, nil
}

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 32 // one host answers everything
	return t
}

// remembering makes GET requests conditional: what has not changed is answered with 304, which GitHub does not count
// against the hourly limit. https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
type remembering struct {
	base http.RoundTripper

	mu    sync.Mutex
	kept  map[string]*representation
	order []string
}

type representation struct {
	etag   string
	header http.Header
	body   []byte
}

// What is remembered: quiet lists are small, and there are few of them.
const (
	mostKept    = 256
	largestKept = 256 << 10 // bytes
)

func (t *remembering) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.Header.Get("If-None-Match") != "" {
		return t.base.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	req.Header.Set("X-GitHub-Api-Version", apiVersion)
	key := req.Header.Get("Accept") + " " + req.URL.String()
	t.mu.Lock()
	known := t.kept[key]
	t.mu.Unlock()
	if known != nil {
		req.Header.Set("If-None-Match", known.etag)
	}
	answer, err := t.base.RoundTrip(req)
	if err != nil {
		return answer, err
	}
	if answer.StatusCode == http.StatusNotModified && known != nil {
		_ = answer.Body.Close()
		header := known.header.Clone()
		for name, values := range answer.Header { // the rate limit's are new
			header[name] = values
		}
		answer.StatusCode, answer.Status, answer.Header = http.StatusOK, "200 OK", header
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(known.body)), int64(len(known.body))
		return answer, nil
	}
	etag := answer.Header.Get("ETag")
	if answer.StatusCode != http.StatusOK || etag == "" {
		return answer, nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, largestKept+1))
	if err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	if len(body) > largestKept {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), answer.Body), answer.Body}
		return answer, nil
	}
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(body))
	t.keep(key, &representation{etag: etag, header: answer.Header.Clone(), body: body})
	return answer, nil
}

func (t *remembering) keep(key string, r *representation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept[key] == nil {
		t.order = append(t.order, key)
	}
	t.kept[key] = r
	if len(t.order) > mostKept {
		delete(t.kept, t.order[0])
		t.order = t.order[1:]
	}
}
