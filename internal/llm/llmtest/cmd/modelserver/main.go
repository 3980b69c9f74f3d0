// Command modelserver is a model for fault tests: it speaks the protocols of Anthropic and OpenAI, refuses what they
// refuse, and echoes (see llmtest.Echo). It takes any API key and binds to the loopback address.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/geminixiang/mikan/internal/llm/llmtest"
)

func main() {
	if err := serve(); err != nil {
		slog.Error("modelserver", "error", err)
		os.Exit(1)
	}
}

func serve() error {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on; port 0 picks a free one")
	var o llmtest.EchoOptions
	flag.DurationVar(&o.Delay, "delay", 0, "wait before every reply")
	flag.DurationVar(&o.Between, "between", 0, "wait before every piece of a reply")
	flag.IntVar(&o.FailEvery, "fail-every", 0, "fail every n-th request; 0 = none")
	flag.IntVar(&o.FailStatus, "fail-status", 529, "HTTP status of those failures: 429, 500, 529")
	flag.Parse()

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	handler := llmtest.New(llmtest.Echo(o))
	handler.URL = "http://" + listener.Addr().String()
	fmt.Printf("ANTHROPIC_BASE_URL=%s\nOPENAI_BASE_URL=%s\nOPENROUTER_BASE_URL=%s\nready\n",
		handler.AnthropicURL(), handler.OpenAIURL(), handler.OpenRouterURL())

	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() {
		handler.Close()
		_ = server.Close()
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
