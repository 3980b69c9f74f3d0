// Command cmd runs the local Bot API server, for trying mikan without Telegram:
//
//	go run ./adapters/telegram/telegramtest/cmd -listen 127.0.0.1:8282
//
// It prints the variables to start mikan with. A person (id 1001) with a private chat and a group (id -2001) exist;
// package telegramtest tells what /control/ takes.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/geminixiang/mikan/adapters/telegram/telegramtest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8282", "address to listen at")
	flag.Parse()
	s := telegramtest.New(telegramtest.Options{Hosting: telegramtest.LocalMode})
	s.AddPerson(telegramtest.Person{ID: 1001, FirstName: "Ann", Username: "ann_example"})
	s.AddChat(telegramtest.Chat{ID: 1001, Type: telegramtest.PrivateChat})
	s.AddChat(telegramtest.Chat{ID: -2001, Type: telegramtest.GroupChat, Title: "the group"})
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("TELEGRAM_API_URL=http://%s\nTELEGRAM_BOT_TOKEN=%s\n", ln.Addr(), s.Token)
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(ln))
}
