// Command githubserver runs the tests' GitHub as a process: the REST API at its root, operations under /control/.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/geminixiang/mikan/adapters/github/githubtest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen at")
	flag.Parse()
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	s := githubtest.Empty()
	s.URL = "http://" + ln.Addr().String()
	fmt.Println(s.URL)
	log.Fatal((&http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}).Serve(ln))
}
