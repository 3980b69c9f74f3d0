package slack

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/failpoint"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/rate"
	"github.com/geminixiang/mikan/internal/store"
)

// byID begins the source of a file whose address Slack does not tell in events: files of other workspaces, in shared
// channels. files.info knows it.
const byID = "file:"

func attachmentsOf(files []file) []store.Attachment {
	var all []store.Attachment
	for _, f := range files {
		a := store.Attachment{Name: firstOf(f.Name, f.Title, f.ID, "file"), MediaType: f.MimeType, Size: f.Size, Source: firstOf(f.Download, f.URL)}
		switch {
		case f.Mode == "tombstone":
			a.Problem, a.Source = "it was deleted", ""
		case a.Source == "" || f.Access == "check_file_info":
			a.Source = byID + f.ID
		}
		all = append(all, a)
	}
	return all
}

// Fetch opens a file. The token goes to Slack's own hosts only: the address of a file that lives elsewhere is whatever
// its owner chose.
func (a *Adapter) Fetch(ctx context.Context, _ office.Address, file store.Attachment) (io.ReadCloser, error) {
	address := file.Source
	if id, unknown := strings.CutPrefix(address, byID); unknown {
		var err error
		if address, err = a.addressOf(ctx, id); err != nil {
			return nil, err
		}
	}
	if !a.trusted(address) {
		return nil, fault.New(fault.Forbidden, "the file is not kept by Slack")
	}
	ctx, cancel := context.WithCancel(ctx)
	from, to := io.Pipe()
	go func() {
		failpoint.Hit("slack.file.before")
		err := a.api.GetFileContext(ctx, address, to)
		failpoint.Hit("slack.file.after")
		_ = to.CloseWithError(downloadError(err))
	}()
	reader := bufio.NewReader(from)
	// What is wrong with the request shows before the first byte.
	if _, err := reader.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		cancel()
		_ = from.Close()
		return nil, err
	}
	return &download{Reader: reader, pipe: from, cancel: cancel}, nil
}

type download struct {
	io.Reader
	pipe   *io.PipeReader
	cancel context.CancelFunc
}

// Close ends the request, however much of the file was read.
func (d *download) Close() error {
	d.cancel()
	return d.pipe.Close()
}

func downloadError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errForeign):
		return fault.New(fault.Forbidden, "the file is not kept by Slack")
	case strings.Contains(err.Error(), "redirected to the sign-in page"):
		return fault.New(fault.Forbidden, "this app may not read the file")
	}
	return translate("the file", err)
}

func (a *Adapter) addressOf(ctx context.Context, id string) (string, error) {
	me, err := a.identity(ctx)
	if err != nil {
		return "", err
	}
	var found *sdk.File
	err = a.limited(ctx, me.Team, fileInfo, "", rate.Final, func(ctx context.Context) error {
		var err error
		found, _, _, err = a.api.GetFileInfoContext(ctx, id, 0, 0)
		return err
	})
	if err != nil {
		return "", err
	}
	return firstOf(found.URLPrivateDownload, found.URLPrivate), nil
}

// trusted tells whether an address is Slack's: the host of the API, or a host of slack.com by https.
func (a *Adapter) trusted(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	return a.isSlack(u)
}

func (a *Adapter) isSlack(u *url.URL) bool {
	if u.Scheme == a.apiURL.Scheme && strings.EqualFold(u.Host, a.apiURL.Host) {
		return true
	}
	host := strings.ToLower(u.Hostname())
	for _, domain := range []string{"slack.com", "slack-gov.com"} {
		if u.Scheme == "https" && (host == domain || strings.HasSuffix(host, "."+domain)) {
			return true
		}
	}
	return false
}

var errForeign = errors.New("redirected away from Slack")

// refuseForeignHosts follows redirects within Slack only: Go's client keeps the token on a redirect to another port of
// the same host.
func (a *Adapter) refuseForeignHosts(to *http.Request, via []*http.Request) error {
	if !a.isSlack(to.URL) {
		return errForeign
	}
	if len(via) >= 5 {
		return errors.New("too many redirects")
	}
	return nil
}

// Upload posts a file where the answer goes, and returns the file's id.
func (a *Adapter) Upload(ctx context.Context, m adapters.Outgoing, u adapters.Upload) (string, error) {
	to, err := a.termsOf(ctx, m)
	if err != nil {
		return "", err
	}
	if u.Size <= 0 {
		return "", fault.New(fault.Invalid, "Slack takes no empty files")
	}
	var place *sdk.GetUploadURLExternalResponse
	err = a.limited(ctx, to.Team, uploadURL, "", rate.Final, func(ctx context.Context) error {
		var err error
		place, err = a.api.GetUploadURLExternalContext(ctx, sdk.GetUploadURLExternalParameters{FileName: u.Name, FileSize: int(u.Size)})
		return err
	})
	if err != nil {
		return "", err
	}
	err = a.call(ctx, to.Team, uploadBytes, "", func(ctx context.Context) error {
		return a.api.UploadToURL(ctx, sdk.UploadToURLParameters{UploadURL: place.UploadURL, Reader: u.Content, Filename: u.Name})
	})
	if err != nil {
		return "", err
	}
	return place.FileID, a.limited(ctx, to.Team, uploadEnd, "", rate.Final, func(ctx context.Context) error {
		_, err := a.api.CompleteUploadExternalContext(ctx, sdk.CompleteUploadExternalParameters{
			Files: []sdk.FileSummary{{ID: place.FileID, Title: u.Name}}, Channel: to.Channel, ThreadTimestamp: to.Thread,
		})
		return err
	})
}
