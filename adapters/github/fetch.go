package github

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

// file tells where a file that a comment names is fetched from; false for whatever is not GitHub's own.
func (h hosts) file(address string) (*url.URL, bool) {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return nil, false
	}
	if u.Scheme == h.api.Scheme && u.Host == h.api.Host && h.redirected == redirected {
		return u, true
	}
	own := u.Host == "github.com" && strings.HasPrefix(u.Path, "/user-attachments/") || strings.HasSuffix(u.Host, ".githubusercontent.com")
	if u.Scheme != "https" || !own {
		return nil, false
	}
	if h.redirected == redirected {
		u.Scheme, u.Host = h.api.Scheme, h.api.Host
	}
	return u, true
}

// newFileClient follows GitHub to where it stores files, without the token.
func newFileClient(c config.GitHubConfig, h hosts) *http.Client {
	return &http.Client{
		Transport: confined{base: newTransport(), token: c.AgentToken, hosts: h},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > 5 || h.redirected == redirected && req.URL.Host != h.api.Host || h.redirected == direct && req.URL.Scheme != "https" {
				return fault.New(fault.Forbidden, "the file is somewhere else")
			}
			return nil
		},
	}
}

// Fetch opens a picture or file of a comment.
func (a *Adapter) Fetch(ctx context.Context, _ office.Address, f store.Attachment) (io.ReadCloser, error) {
	u, ok := a.hosts.file(f.Source)
	if !ok {
		return nil, fault.New(fault.Forbidden, "the file is not on GitHub")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the file has no address")
	}
	failpoint.Hit("github.fetch.before")
	answer, err := a.files.Do(req)
	failpoint.Hit("github.fetch.after")
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fault.New(fault.Unavailable, "the file could not be fetched") // the error holds the address, which may be signed
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	_ = answer.Body.Close()
	switch status := answer.StatusCode; {
	case status == http.StatusNotFound, status == http.StatusGone:
		return nil, fault.New(fault.NotFound, "the file does not exist any more")
	case status == http.StatusTooManyRequests:
		return nil, fault.New(fault.RateLimited, "GitHub asks for a pause").After(retryAfter(answer.Header))
	case status >= http.StatusInternalServerError:
		return nil, fault.New(fault.Unavailable, "GitHub answers %d for the file", status)
	default:
		return nil, fault.New(fault.Forbidden, "GitHub answers %d for the file", status)
	}
}
