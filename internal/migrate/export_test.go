package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/llm"
)

// CheckSession reads a file as an import does and tells what must never be: a position that is missing, an entry that
// the database could not hold, an unanswered call in the context, a context that begins elsewhere than numbered.
// A file that is refused is no error.
func CheckSession(ctx context.Context, path string) error {
	file, _, err := openRegular(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	x, err := readIndex(ctx, file, checkContent)
	var refused *lineError
	if errors.Is(err, errPlaceholder) || errors.As(err, &refused) {
		return nil
	}
	if err != nil {
		return err
	}
	x.include(ofNewest)
	numbers := x.number()
	next, first := int64(1), int64(0)
	open := map[string]int{}
	err = x.emit(ctx, file, nil, withLeftover, func(e emitted) error {
		if e.Seq != next {
			return fmt.Errorf("entry %d came where %d was due", e.Seq, next)
		}
		next++
		if e.InContext && first == 0 {
			first = e.Seq
		}
		raw, err := json.Marshal(e.Body)
		if err != nil || !utf8.Valid(raw) || !json.Valid(raw) {
			return fmt.Errorf("entry %d cannot be encoded: %v", e.Seq, err)
		}
		if !e.InContext {
			return nil
		}
		for _, b := range e.Body.Blocks {
			switch b.Kind {
			case llm.BlockToolCall:
				open[b.CallID]++
			case llm.BlockToolResult:
				open[b.CallID]--
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, n := range open {
		if n != 0 {
			return fmt.Errorf("call %q has %d results too few", id, n)
		}
	}
	if next != numbers.total+1 || first != 0 && first < numbers.window {
		return fmt.Errorf("%d entries, the context begins with %d; numbered %d, %d", next-1, first, numbers.total, numbers.window)
	}
	return nil
}
