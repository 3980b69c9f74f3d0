package telegram_test

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/telegram"
	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

func TestAFileIsFetchedFromTelegram(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.listen()
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	id := itoa(r.telegram.Say(telegramtest.Said{Chat: ann, From: ann, Media: &telegramtest.Media{Kind: "document", Name: "a.bin", Content: content}}))
	file := r.got(ann, id).Attachments[0]
	body, err := r.adapter.Fetch(t.Context(), office.Address{}, file)
	r.must(err)
	got, err := io.ReadAll(body)
	r.must(err)
	r.must(body.Close())
	if !bytes.Equal(got, content) {
		t.Errorf("%d bytes came, of %d", len(got), len(content))
	}
}

func TestAFileThatCannotBeFetchedSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	r.listen()
	source := func(m telegramtest.Media) store.Attachment {
		t.Helper()
		return r.got(ann, itoa(r.telegram.Say(telegramtest.Said{Chat: ann, From: ann, Media: &m}))).Attachments[0]
	}
	small := source(telegramtest.Media{Kind: "document", Name: "a.txt", Content: []byte("a")})
	for _, c := range []struct {
		what string
		file store.Attachment
		hurt *telegramtest.Fault
		want fault.Code
	}{
		{"too large", source(telegramtest.Media{Kind: "document", Name: "big.iso", Size: 20<<20 + 1}), nil, fault.TooLarge},
		{"unknown", store.Attachment{Source: "nothing"}, nil, fault.NotFound},
		{"trouble at Telegram", small, &telegramtest.Fault{Method: "getFile", Kind: telegramtest.ServerError}, fault.Unavailable},
		{"a lost answer", small, &telegramtest.Fault{Method: "getFile", Kind: telegramtest.LoseReply}, fault.Unavailable},
		{"trouble in the download", small, &telegramtest.Fault{Method: "download", Kind: telegramtest.ServerError}, fault.Unavailable},
		{"a pause in the download", small, &telegramtest.Fault{Method: "download", Kind: telegramtest.RateLimited, RetryAfter: 7}, fault.RateLimited},
		{"a lost download", small, &telegramtest.Fault{Method: "download", Kind: telegramtest.LoseReply, Times: -1}, fault.Unavailable}, // the transport repeats it by itself while it can
	} {
		if c.hurt != nil {
			r.telegram.Fail(*c.hurt)
		}
		if _, err := r.adapter.Fetch(t.Context(), office.Address{}, c.file); fault.CodeOf(err) != c.want {
			t.Errorf("%s: %v (%s), want %s", c.what, err, fault.CodeOf(err), c.want)
		}
		r.telegram.Mend()
	}
}

// picture is a PNG of a size.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAFileIsPostedWhereTheAnswerStands(t *testing.T) {
	t.Parallel()
	r := newRig(t, telegramtest.Options{})
	topic := r.telegram.AddTopic(forum, bob, "deploys")
	for _, c := range []struct {
		name    string
		content []byte
		shown   string // as "photo", or by name as a document
	}{
		{"chart.png", picture(t, 40, 30), "photo"},
		{"strip.png", picture(t, 2100, 10), "strip.png"}, // a shape that Telegram shows no photo of
		{"broken.png", []byte("no picture"), "broken.png"},
		{"報告 (1).txt", []byte("text"), "報告 (1).txt"},
	} {
		id, err := r.adapter.Upload(t.Context(), to(forum, "", telegram.Reply{Topic: topic}), adapters.Upload{
			Name: c.name, Size: int64(len(c.content)), Content: bytes.NewReader(c.content),
		})
		r.must(err)
		all := r.telegram.FromBot(forum)
		if last := all[len(all)-1]; itoa(last.ID) != id || last.File != c.shown || last.Topic != topic {
			t.Errorf("%s: %+v", c.name, last)
		}
	}
	for what, u := range map[fault.Code]adapters.Upload{
		fault.TooLarge: {Name: "huge.bin", Size: 50<<20 + 1},
		fault.Invalid:  {Name: "empty.txt", Content: strings.NewReader("")},
	} {
		if _, err := r.adapter.Upload(t.Context(), to(forum, "", telegram.Reply{}), u); fault.CodeOf(err) != what {
			t.Errorf("%s: %v, want %s", u.Name, err, what)
		}
	}
}
