package discord_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/adapters/discord/discordtest"
	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/store"
)

// The local server fails the test when a token reaches the CDN.
func TestAttachmentsAreFetchedFromTheCDN(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	r.listen()
	id := r.say(discordtest.Utterance{Text: r.mention() + " read", Files: map[string][]byte{"a.txt": []byte("hello"), "b.png": {1, 2, 3}}})
	m := r.taken(id)
	if len(m.Attachments) != 2 || m.Attachments[0].Name != "a.txt" || m.Attachments[1].MediaType != "image/png" || m.Attachments[0].Size != 5 {
		t.Fatalf("attachments: %+v", m.Attachments)
	}
	for i, want := range []string{"hello", "\x01\x02\x03"} {
		content, err := r.adapter.Fetch(t.Context(), m.Address, m.Attachments[i])
		r.must(err)
		got, err := io.ReadAll(content)
		_ = content.Close()
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", m.Attachments[i].Name, got, err)
		}
		if strings.Contains(m.Attachments[i].Source, "http") {
			t.Errorf("a signed address is stored: %s", m.Attachments[i].Source)
		}
	}
	r.discord.LoseFile(r.general, id)
	if _, err := r.adapter.Fetch(t.Context(), m.Address, m.Attachments[0]); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a file that is gone: %v", err)
	}
	r.discord.Remove(r.general, id)
	if _, err := r.adapter.Fetch(t.Context(), m.Address, m.Attachments[0]); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a message that is gone: %v", err)
	}
	for _, source := range []string{"", "../x", "1/2"} {
		if _, err := r.adapter.Fetch(t.Context(), m.Address, store.Attachment{Source: source}); err == nil {
			t.Errorf("%q was fetched", source)
		}
	}
}

func TestFilesAreUploadedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, discordtest.Options{})
	question := r.say(discordtest.Utterance{Text: "?"})
	m := r.outgoing(r.general, question, "")
	upload := func(size int) error {
		_, err := r.adapter.Upload(t.Context(), m, adapters.Upload{Name: "out.txt", Size: int64(size), Content: bytes.NewReader(make([]byte, size))})
		return err
	}
	r.discord.Fail(discordtest.Fault{Method: "POST", Route: create, Lost: discordtest.ReplyLost})
	if err := upload(3); fault.CodeOf(err) != fault.Unavailable {
		t.Fatalf("a lost reply: %v", err)
	}
	r.must(upload(3))
	own := r.discord.Own(r.general)
	if len(own) != 1 || len(own[0].Attachments) != 1 || own[0].Attachments[0].Filename != "out.txt" || own[0].Reference == nil {
		t.Errorf("shown: %+v", own)
	}
	if err := upload(10<<20 + 1); fault.CodeOf(err) != fault.TooLarge {
		t.Errorf("more than Discord takes: %v", err)
	}
}
