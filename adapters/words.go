package adapters

import (
	"strings"

	"github.com/geminixiang/mikan/internal/run"
)

// Word is a message that mikan itself carries out: it is never sent to the model.
type Word string

// The control words. Only stop and stop all work as bare words; the others need "/" or "/mikan-".
const (
	NoWord  Word = ""
	Stop    Word = "stop"
	StopAll Word = "stop all"
	New     Word = "new"
	Help    Word = "help"
	Session Word = "session"
	Compact Word = run.CompactWord // a run of its own: it waits for its turn
	Memory  Word = run.MemoryWord  // a run, since only its worker sees the workspace

	Model     Word = "model"      // with an argument, sets what it otherwise tells
	AutoReply Word = "auto-reply" // the same
	Events    Word = "events"
)

// ParseWord recognises a control word: the whole message, in any case, with an optional trailing @name.
func ParseWord(text string) Word {
	fields := strings.Fields(strings.ToLower(text))
	if len(fields) > 1 && strings.HasPrefix(fields[len(fields)-1], "@") {
		fields = fields[:len(fields)-1]
	}
	said := strings.Join(fields, " ")
	bare, slashed := strings.CutPrefix(said, "/")
	bare = strings.TrimPrefix(bare, "mikan-")
	if name, at, found := strings.Cut(bare, "@"); found && at != "" && !strings.Contains(at, " ") {
		bare = name // Telegram's /stop@bot
	}
	switch word := Word(bare); word {
	case Stop, StopAll:
		if slashed || !strings.HasPrefix(said, "mikan-") {
			return word
		}
	case New, Help, Session, Compact, Memory, Events:
		if slashed {
			return word
		}
	}
	if name, _, _ := strings.Cut(bare, " "); slashed && len(strings.Fields(bare)) <= 2 && (Word(name) == Model || Word(name) == AutoReply) {
		return Word(name)
	}
	return NoWord
}

// argumentOf is what stands behind a word, as it was written; empty when nothing does.
func argumentOf(text string) string {
	fields := strings.Fields(text)
	if len(fields) < 2 || strings.HasPrefix(fields[1], "@") {
		return ""
	}
	return fields[1]
}
