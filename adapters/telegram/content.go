package telegram

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/go-telegram/bot/models"

	"github.com/geminixiang/mikan/internal/store"
)

// words are a message's text, or a file's caption, in the units that entities count in.
type words struct {
	units    []uint16
	entities []models.MessageEntity
}

func wordsOf(m *models.Message) words {
	if m.Text != "" {
		return words{utf16.Encode([]rune(m.Text)), m.Entities}
	}
	return words{utf16.Encode([]rune(m.Caption)), m.CaptionEntities}
}

// cut is a run of a text; what lies outside of it is left out.
func cut(units []uint16, offset, length int) string {
	from := min(max(offset, 0), len(units))
	return string(utf16.Decode(units[from:min(max(offset+length, from), len(units))]))
}

// text is what a message says to mikan: without the bot's own name, with addresses behind link texts, and with a note
// about whatever cannot be said in words.
func (me identity) text(m *models.Message) string {
	parts := []string{origin(m), me.said(wordsOf(m)), note(m)}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "\n")
}

func (me identity) said(w words) string {
	var b strings.Builder
	at := 0
	for _, e := range w.entities {
		if e.Offset < at {
			continue // within one that was rewritten
		}
		instead, rewritten := me.rewrite(w.units, e)
		if !rewritten {
			continue
		}
		b.WriteString(cut(w.units, at, e.Offset-at))
		b.WriteString(instead)
		at = e.Offset + e.Length
		if instead == "" && at < len(w.units) && w.units[at] == ' ' {
			at++ // the space that stood behind the name
		}
	}
	b.WriteString(cut(w.units, at, len(w.units)-at))
	return strings.TrimSpace(b.String())
}

// rewrite tells what stands for an entity in the text.
func (me identity) rewrite(units []uint16, e models.MessageEntity) (instead string, rewritten bool) {
	shown := cut(units, e.Offset, e.Length)
	switch {
	case e.Type == models.MessageEntityTypeBotCommand && me.names(units, e):
		command, _, _ := strings.Cut(shown, "@")
		return command, true
	case me.names(units, e):
		return "", true
	case e.Type == models.MessageEntityTypeTextLink && e.URL != "" && e.URL != shown:
		return shown + " (" + e.URL + ")", true
	}
	return "", false
}

// origin tells of a forwarded message whose it was: whoever forwards something does not say it.
func origin(m *models.Message) string {
	if m.ForwardOrigin == nil {
		return ""
	}
	from := ""
	switch o := m.ForwardOrigin; {
	case o.MessageOriginUser != nil:
		from = personName(o.MessageOriginUser.SenderUser)
	case o.MessageOriginHiddenUser != nil:
		from = o.MessageOriginHiddenUser.SenderUserName
	case o.MessageOriginChat != nil:
		from = chatName(o.MessageOriginChat.SenderChat)
	case o.MessageOriginChannel != nil:
		from = chatName(o.MessageOriginChannel.Chat)
	}
	return "[forwarded from " + from + "]"
}

// note says in words what a message holds beside text and files.
func note(m *models.Message) string {
	switch {
	case m.Voice != nil:
		return "[voice message, " + clock(m.Voice.Duration) + "]"
	case m.VideoNote != nil:
		return "[video note, " + clock(m.VideoNote.Duration) + "]"
	case m.Sticker != nil:
		return "[sticker " + m.Sticker.Emoji + "]"
	case m.Venue != nil:
		return fmt.Sprintf("[place: %s, %s (%.6f, %.6f)]", m.Venue.Title, m.Venue.Address, m.Venue.Location.Latitude, m.Venue.Location.Longitude)
	case m.Location != nil:
		return fmt.Sprintf("[location: %.6f, %.6f]", m.Location.Latitude, m.Location.Longitude)
	case m.Contact != nil:
		return fmt.Sprintf("[contact: %s, %s]", strings.TrimSpace(m.Contact.FirstName+" "+m.Contact.LastName), m.Contact.PhoneNumber)
	case m.Poll != nil:
		return "[poll: " + m.Poll.Question + "]"
	case m.Dice != nil:
		return fmt.Sprintf("[%s %d]", m.Dice.Emoji, m.Dice.Value)
	case m.Story != nil:
		return "[story]"
	}
	return ""
}

// clock writes seconds as minutes and seconds.
func clock(seconds int) string { return fmt.Sprintf("%d:%02d", seconds/60, seconds%60) }

// downloadLimit is what the Bot API hands out at most (https://core.telegram.org/bots/api#getfile).
const downloadLimit = 20 << 20

// attachments are a message's files. Their source is the file's id.
func attachments(m *models.Message) []store.Attachment {
	var files []store.Attachment
	add := func(id, name, kind string, size int64) {
		file := store.Attachment{Name: name, MediaType: kind, Size: size, Source: id}
		if size > downloadLimit {
			file.Problem = "it is larger than 20 MB, which is what Telegram hands to bots"
		}
		files = append(files, file)
	}
	named := func(name, fallback string) string {
		if name == "" {
			return fallback
		}
		return name
	}
	switch {
	case len(m.Photo) > 0:
		largest := slices.MaxFunc(m.Photo, func(a, b models.PhotoSize) int { return a.Width*a.Height - b.Width*b.Height })
		add(largest.FileID, fmt.Sprintf("photo-%d.jpg", m.ID), "image/jpeg", int64(largest.FileSize))
	case m.Animation != nil: // comes with a document that is the same
		add(m.Animation.FileID, named(m.Animation.FileName, fmt.Sprintf("animation-%d.mp4", m.ID)), m.Animation.MimeType, m.Animation.FileSize)
	case m.Document != nil:
		add(m.Document.FileID, named(m.Document.FileName, fmt.Sprintf("document-%d", m.ID)), m.Document.MimeType, m.Document.FileSize)
	case m.Video != nil:
		add(m.Video.FileID, named(m.Video.FileName, fmt.Sprintf("video-%d.mp4", m.ID)), m.Video.MimeType, m.Video.FileSize)
	case m.Audio != nil:
		add(m.Audio.FileID, named(m.Audio.FileName, fmt.Sprintf("audio-%d.mp3", m.ID)), m.Audio.MimeType, m.Audio.FileSize)
	case m.Voice != nil:
		add(m.Voice.FileID, fmt.Sprintf("voice-%d.ogg", m.ID), named(m.Voice.MimeType, "audio/ogg"), m.Voice.FileSize)
	case m.VideoNote != nil:
		add(m.VideoNote.FileID, fmt.Sprintf("video-note-%d.mp4", m.ID), "video/mp4", int64(m.VideoNote.FileSize))
	}
	return files
}
