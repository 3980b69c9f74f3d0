package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/geminixiang/mikan/adapters/terminal"
)

// talk is dev's prompt: a conversation of its own on the terminal platform, until end of input or ctx.
func talk(ctx context.Context, a *asker, in io.Reader) error {
	lines := make(chan string)
	go func() {
		// A read from a terminal cannot be interrupted: this goroutine ends with its input or with the process.
		defer close(lines)
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	say("Write something (try: help), or end with Ctrl-D.")
	user := userName()
	for {
		_, _ = fmt.Fprint(a.live, "> ")
		select {
		case <-ctx.Done():
			return nil
		case line, open := <-lines:
			if !open {
				return nil
			}
			if strings.TrimSpace(line) == "" {
				continue
			}
			if err := a.say(ctx, terminal.Input{Conversation: "dev", User: user, Text: line}); err != nil {
				say("mikan: %s", err)
			}
		}
	}
}

// say asks and shows the answer.
func (a *asker) say(ctx context.Context, in terminal.Input) error {
	return a.askOnce(ctx, in, func(r result) error { return r.printRest(a.live) })
}
