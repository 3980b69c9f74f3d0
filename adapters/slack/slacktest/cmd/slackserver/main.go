// Command slackserver runs the tests' Slack as a process that serves until it is told to stop.
//
// It prints one line of JSON with its addresses, the app's tokens and the first workspace, and takes operations under
// /control/ (see package slacktest).
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var o slacktest.Options
	flag.StringVar(&o.Addr, "addr", "127.0.0.1:0", "host:port to listen on, loopback only")
	flag.DurationVar(&o.AckTimeout, "ack-timeout", 0, "how long an event may stay unacknowledged (0: 3s)")
	flag.DurationVar(&o.PingInterval, "ping-interval", 0, "time between pings on a socket (0: 10s)")
	flag.DurationVar(&o.StreamLifetime, "stream-lifetime", 0, "when open streams are ended (0: 5m)")
	flag.StringVar((*string)(&o.Rates), "rates", "", `beyond documented rates: "" keeps a violation, "enforced" answers 429, "off"`)
	flag.Float64Var(&o.RateScale, "rate-scale", 0, "how much faster the minutes of rates pass")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := slacktest.Start(o)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(s.Info()); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Close()
}
