// Command discordserver runs the local Discord server as a process of its own. It prints what to set in mikan's
// environment; see discordtest's control API for how to play the people.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/geminixiang/mikan/adapters/discord/discordtest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8182", "where to listen; port 0 takes a free one")
	rates := flag.String("rates", "", `"enforced" answers 429 where Discord would`)
	flag.Parse()
	s, err := discordtest.Start(discordtest.Options{Listen: *listen, Rates: discordtest.Rates(*rates)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer s.Close()
	fmt.Printf("DISCORD_API_URL=%s\nDISCORD_BOT_TOKEN=%s\n", s.URL(), s.Token())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
}
